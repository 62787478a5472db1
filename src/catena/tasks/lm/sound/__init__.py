"""Language models of recordings: WaveNets over the samples of sound files."""
