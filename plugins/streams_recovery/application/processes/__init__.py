"""An application as local processes under a witness, or behind programs of the user's own."""
