"""An application that a Deployment or a StatefulSet of Kubernetes runs."""
