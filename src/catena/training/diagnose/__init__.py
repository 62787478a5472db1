"""Why a training goes well or badly: how gradients flow back in time, and how curved the loss is."""
