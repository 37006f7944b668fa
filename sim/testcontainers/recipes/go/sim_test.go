package simtest

import (
	"crypto/tls"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"
	"testing"
)

const envelope = `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body>
<Login xmlns="urn:vim25"><_this type="SessionManager">SessionManager</_this>
<userName>%s</userName><password>%s</password></Login></soapenv:Body></soapenv:Envelope>`

// logIn logs in by SOAP, and tries again while the vCenter answers 503. It is the code under test.
func logIn(client *http.Client, vcenter VCenter, tries int) (string, error) {
	account := vcenter.Administrator
	body := fmt.Sprintf(envelope, html.EscapeString(account.Username), html.EscapeString(account.Password))
	for ; ; tries-- {
		answer, err := client.Post(vcenter.URL+"/sdk", "text/xml", strings.NewReader(body))
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		switch {
		case err != nil:
			return "", err
		case answer.StatusCode == http.StatusOK:
			return string(text), nil
		case answer.StatusCode != http.StatusServiceUnavailable || tries <= 1:
			return "", fmt.Errorf("login: %s", answer.Status)
		}
	}
}

func TestABusyVCenterIsAskedAgain(t *testing.T) {
	sim := Start(t, "--vms=3", "--nodes=0")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: sim.Roots}}}

	sim.Admin("POST", "/faults", map[string]any{
		"id": "busy", "match": map[string]any{"op": "Login"}, "when": map[string]any{"first": 2},
		"do": []any{map[string]any{"status": map[string]any{"code": 503}}},
	}, nil)
	session, err := logIn(client, sim.VCenter, 3)
	if err != nil || !strings.Contains(session, "<userName>") {
		t.Fatalf("the login failed: %v, %s", err, session)
	}
	if n := sim.Calls("Login"); n != 3 {
		t.Errorf("%d logins, want 3", n)
	}

	sim.Admin("DELETE", "/faults", nil, nil)
	sim.Admin("POST", "/world/events", map[string]any{"vm.powerOff": "node-0001"}, nil)
	var world struct{ Machines []struct{ Name, Power string } }
	sim.Admin("GET", "/world", nil, &world)
	if it := world.Machines[0]; it.Name != "node-0001" || it.Power != "poweredOff" {
		t.Errorf("machine %+v, want node-0001 powered off", it)
	}
}
