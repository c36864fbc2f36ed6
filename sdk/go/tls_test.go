package bucksaw

import (
	"crypto/tls"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// checkReport logs a record, and waits until an attempt fails for this reason. A server may close the connection before the
// reason of its refusal is read, so it need not be the first attempt.
func checkReport(t *testing.T, config Config, want string) {
	t.Helper()
	client, reported := newTestClient(t, config)
	client.Log(Record{Message: "m"})
	eventually(t, want, func() bool { _, last := reported.records(KindRetry); return strings.Contains(last, want) })
	if stats := client.Stats(); stats.BufferedRecords != 1 || stats.Denied != 0 {
		t.Errorf("got %+v", stats)
	}
	eventually(t, want, func() bool {
		_, err := client.Count(within(t), QueryOptions{})
		return err != nil && strings.Contains(err.Error(), want)
	})
}

func TestTLSWithTheFileOfTheCA(t *testing.T) {
	ca := newAuthority(t)
	s := newTLSStub(t, ca.server(), nil)
	address := strings.TrimPrefix(s.URL, "https://")
	for _, endpoint := range []string{s.URL, address} {
		client, _ := newTestClient(t, Config{Endpoints: []string{endpoint}, CAFile: ca.file})
		client.Log(Record{Message: "m"})
		flush(t, client)
		if stats := client.Stats(); stats.Acknowledged != 1 {
			t.Errorf("got %+v", stats)
		}
		s.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, statsLine) }
		if records, err := readAll(t, client, QueryOptions{}); err != nil {
			t.Errorf("got %v, %v", records, err)
		}
		s.answer = acceptAll
	}
}

func TestFailuresOfTLSAreExplained(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	secure := newTLSStub(t, ca.server(), nil)
	demanding := newTLSStub(t, ca.server(), ca.requireClients)
	foreign := other.issue("client", -time.Hour, time.Hour)
	for _, c := range []struct {
		config Config
		server *stub
		want   string
	}{
		{Config{CAFile: other.file}, secure, "the certificate of the node is not signed by a trusted CA: "},
		{Config{}, secure, "the certificate of the node is not signed by a trusted CA: "},
		{Config{CAFile: ca.file}, newTLSStub(t, ca.issue("a.example", -time.Hour, time.Hour), nil),
			"the certificate of the node is not for this name: "},
		{Config{CAFile: ca.file}, newTLSStub(t, ca.issue("127.0.0.1", -2*time.Hour, -time.Hour), nil),
			"the certificate of the node has expired: "},
		{Config{CAFile: ca.file}, newTLSStub(t, ca.issue("127.0.0.1", time.Minute, time.Hour), nil),
			"the certificate of the node is not valid yet: "},
		{Config{CAFile: ca.file}, demanding, "the node requires a client certificate: "},
		{Config{CAFile: ca.file, CertificateFile: foreign.certificate, KeyFile: foreign.key}, demanding,
			"the node re"}, // Go sends no certificate of a CA that the server does not list.
		{Config{CAFile: ca.file}, newTLSStub(t, ca.server(), func(c *tls.Config) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}), "version"},
	} {
		c.config.Endpoints, c.config.BatchAge = []string{c.server.URL}, time.Millisecond
		checkReport(t, c.config, c.want)
		if len(c.server.received()) != 0 {
			t.Errorf("%s: a request was sent", c.want)
		}
	}
}

func TestClientCertificate(t *testing.T) {
	ca := newAuthority(t)
	s := newTLSStub(t, ca.server(), ca.requireClients)
	own := ca.issue("client", -time.Hour, time.Hour)
	client, _ := newTestClient(t, Config{
		Endpoints: []string{s.URL}, CAFile: ca.file, CertificateFile: own.certificate, KeyFile: own.key,
	})
	client.Log(Record{Message: "m"})
	flush(t, client)
	if stats := client.Stats(); stats.Acknowledged != 1 {
		t.Errorf("got %+v", stats)
	}
}

// TestChangedFilesAreUsed has a client whose certificate has expired and whose CA is another one, until its files are replaced.
func TestChangedFilesAreUsed(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	s := newTLSStub(t, ca.server(), ca.requireClients)
	file := filepath.Join(t.TempDir(), "ca.pem")
	replace(t, file, other.file)
	own := ca.issue("client", -2*time.Hour, -time.Hour)
	client, _ := newTestClient(t, Config{
		Endpoints: []string{s.URL}, CAFile: file, CertificateFile: own.certificate, KeyFile: own.key, BatchAge: time.Millisecond,
	})
	client.Log(Record{Message: "m"})
	report := func(want string) { // Of a count, which has no pauses.
		t.Helper()
		eventually(t, want, func() bool {
			_, err := client.Count(within(t), QueryOptions{})
			return err != nil && strings.Contains(err.Error(), want)
		})
	}
	report("not signed by a trusted CA")
	replaceText(t, file, []byte("no certificate"))
	report("(a changed file cannot be used: CAFile: " + file + " has no certificate in PEM format)")
	replace(t, file, ca.file)
	report("the node refuses the client certificate")
	renewed := ca.issue("client", -time.Hour, time.Hour)
	replace(t, own.certificate, renewed.certificate)
	report("private key does not match")
	replace(t, own.key, renewed.key)
	flush(t, client)
	if stats := client.Stats(); stats.Acknowledged != 1 || stats.Dropped.Total() != 0 {
		t.Errorf("got %+v", stats)
	}
}

func TestInvalidFilesOfTLS(t *testing.T) {
	ca := newAuthority(t)
	own := ca.issue("client", -time.Hour, time.Hour)
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{CAFile: missing}, "no such file"},
		{Config{CAFile: own.key}, "has no certificate in PEM format"},
		{Config{CAFile: filepath.Dir(missing)}, "is not a regular file"},
		{Config{CertificateFile: own.certificate}, "need each other"},
		{Config{KeyFile: own.key}, "need each other"},
		{Config{CertificateFile: own.certificate, KeyFile: own.certificate}, own.certificate},
		{Config{CAFile: ca.file, Transport: http.DefaultTransport}, "no effect"},
		{Config{CAFile: ca.file, Endpoints: []string{"http://127.0.0.1:7650"}}, "are for https"},
	} {
		if client, err := New(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, %v", c.config, client, err)
		}
	}
}
