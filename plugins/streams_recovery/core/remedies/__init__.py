"""What this program tells people to do, each with what has to be true before anybody may follow it."""
