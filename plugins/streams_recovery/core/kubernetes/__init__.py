"""Decisions about an application in Kubernetes, from objects as its API returns them."""
