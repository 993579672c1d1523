"""The status of an application as it is stored: one object that pages, alerts and the command line read."""
