"""What turns vectors into weights over other vectors."""
