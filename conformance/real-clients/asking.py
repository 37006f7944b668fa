"""Requests to servers for the Python helpers of story.sh. Tokens and the trusted certificate come from the environment."""
import json
import os
import ssl
import urllib.request


def ask(method, url, body=None, content_type="application/json"):
    """Sends a request with the token for the URL's server. Returns the JSON document of the answer; raises urllib's error
    for an error status."""
    token = os.environ.get("SIM_ADMIN_TOKEN", "")
    for name in ("CLUSTER", "SUPERVISOR"):
        server = os.environ.get(f"SIM_{name}" if name == "SUPERVISOR" else name)
        if server and url.startswith(server):
            token = os.environ[f"{name}_TOKEN"]
    headers = {"Accept": "application/json", "Content-Type": content_type}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=10, context=trust(url)) as answer:
        return json.load(answer)


def trust(url):
    """Returns the TLS context for a URL. The certificate of a real API server is not checked, because it signs its own."""
    if not url.startswith("https"):
        return None
    if os.environ.get("CLUSTER_AUDIT") and url.startswith(os.environ["CLUSTER"]):
        return ssl._create_unverified_context()  # pylint: disable=protected-access
    return ssl.create_default_context(cafile=os.environ["SIM_CA"])
