"""Tests a client that logs in to a vCenter that is busy at first. Run it with `python -m unittest` or pytest."""
import unittest
import urllib.error
import urllib.request

from sim import Sim

ENVELOPE = """<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>
<Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this>
<userName>{username}</userName><password>{password}</password></Login></soapenv:Body></soapenv:Envelope>"""


def log_in(sim, tries=3):
    """Logs in by SOAP, and tries again while the vCenter answers 503. This is the code under test."""
    body = ENVELOPE.format(**sim.vcenter["administrator"]).encode()
    for left in reversed(range(tries)):
        request = urllib.request.Request(sim.vcenter["url"] + "/sdk", body, {"Content-Type": "text/xml", "SOAPAction": "urn:vim25/8.0.3.0"})
        try:
            with urllib.request.urlopen(request, timeout=10, context=sim.tls()) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            if error.code != 503 or not left:
                raise


class Login(unittest.TestCase):
    def test_a_busy_vcenter_is_asked_again(self):
        with Sim("--vms=3", "--nodes=0") as sim:
            sim.admin("POST", "/faults", {"id": "busy", "match": {"op": "Login"}, "when": {"first": 2},
                                          "do": [{"status": {"code": 503}}]})
            self.assertIn("<userName>", log_in(sim))
            self.assertEqual(sim.calls("Login"), 3)
            self.assertEqual(sim.admin("GET", "/faults")[0]["fired"], 2)
            sim.admin("DELETE", "/faults")
            sim.admin("POST", "/world/events", {"vm.powerOff": "node-0001"})
            machines = {it["name"]: it["power"] for it in sim.admin("GET", "/world")["machines"]}
            self.assertEqual(machines["node-0001"], "poweredOff")


if __name__ == "__main__":
    unittest.main()
