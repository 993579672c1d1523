"""Records between librdkafka and Arrow by compiled code (``gather.c``): the same as by Python objects, for a third of the time. See docs/adr/0007."""
