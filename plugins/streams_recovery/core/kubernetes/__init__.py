"""What is decided about an application in Kubernetes, from objects as its API returns them."""
