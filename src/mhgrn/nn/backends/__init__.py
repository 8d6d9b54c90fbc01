"""Three ways to compute the same messages; :mod:`mhgrn.nn.message_passing` chooses one."""
