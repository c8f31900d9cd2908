"""What tests of several rooms share and pytest does not hand out as a fixture."""
