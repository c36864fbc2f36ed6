package bucksaw

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority makes certificates of one CA.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string // With the certificate of the CA.
}

// certificateFiles are the files of one certificate.
type certificateFiles struct{ certificate, key string }

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.file = filepath.Join(t.TempDir(), "ca.pem")
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue makes a certificate for a host or a client, valid from and to these times from now.
func (a *authority) issue(host string, from, to time.Duration) certificateFiles {
	a.t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host},
		NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(to),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	key := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	files := certificateFiles{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	writePEM(a.t, files.certificate, "CERTIFICATE", der)
	writePEM(a.t, files.key, "PRIVATE KEY", private)
	return files
}

// server makes a certificate for 127.0.0.1.
func (a *authority) server() certificateFiles { return a.issue("127.0.0.1", -time.Hour, time.Hour) }

// newTLSStub is a stub that speaks TLS with this certificate.
func newTLSStub(t *testing.T, files certificateFiles, change func(*tls.Config)) *stub {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(files.certificate, files.key)
	if err != nil {
		t.Fatal(err)
	}
	s := &stub{answer: acceptAll}
	s.Server = httptest.NewUnstartedServer(s.handler(t))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if change != nil {
		change(s.TLS)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// requireClients makes a server accept only clients with a certificate of this CA.
func (a *authority) requireClients(config *tls.Config) {
	config.ClientAuth = tls.RequireAndVerifyClientCert
	config.ClientCAs = x509.NewCertPool()
	config.ClientCAs.AddCert(a.certificate)
}

// replace renames a copy of one file over another.
func replace(t *testing.T, name, by string) {
	t.Helper()
	content, err := os.ReadFile(by)
	if err != nil {
		t.Fatal(err)
	}
	replaceText(t, name, content)
}

func replaceText(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name+".new", bytes.Clone(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}
