"""The documentation as a site: pages that are made from the code, and what MkDocs needs beside its configuration."""
