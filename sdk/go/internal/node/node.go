// Package node runs the program for tests and measurements.
package node

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// startTimeMax is how long a node may take to be ready.
const startTimeMax = 30 * time.Second

// Node is a process of the program that can be killed and started again on the same port and directory.
type Node struct {
	Address string // http://127.0.0.1:PORT

	// With TLS: the file of its CA, and those of a client.
	CAFile, CertificateFile, KeyFile string

	program, dir, listen string
	flags                []string
	client               http.Client
	process              *exec.Cmd
}

// Start starts a node with its data in this directory.
func Start(dir string) (*Node, error) {
	n, err := newNode(dir)
	if err != nil {
		return nil, err
	}
	return n, n.Restart()
}

// Has says whether the program has a command: BUCKSAW_BIN may be of an earlier version.
func Has(command string) bool {
	program, err := find()
	return err == nil && exec.Command(program, command, "--help").Run() == nil
}

// StartTLS starts a node that speaks TLS and demands certificates of its clients. The program makes all of them.
func StartTLS(dir string) (*Node, error) {
	n, err := newNode(dir)
	if err != nil {
		return nil, err
	}
	certificates := filepath.Join(dir, "certs")
	for _, arguments := range [][]string{{"ca"}, {"node", "127.0.0.1"}, {"client", "shop"}} {
		command := exec.Command(n.program, append([]string{"certs", "--dir", certificates}, arguments...)...)
		if output, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, output)
		}
	}
	file := func(name string) string { return filepath.Join(certificates, name) }
	n.CAFile, n.CertificateFile, n.KeyFile = file("ca.pem"), file("shop.pem"), file("shop.key")
	n.flags = []string{"--tls-cert", file("127.0.0.1.pem"), "--tls-key", file("127.0.0.1.key"), "--tls-client-ca", n.CAFile}
	n.Address = "https://" + n.listen
	authority, err := os.ReadFile(n.CAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	own, err := tls.LoadX509KeyPair(n.CertificateFile, n.KeyFile)
	if err != nil {
		return nil, err
	}
	n.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{own}}}
	return n, n.Restart()
}

// StartWithToken starts a node that recognises its clients by tokens, and returns one that may write and read.
func StartWithToken(dir string) (*Node, string, error) {
	n, err := newNode(dir)
	if err != nil {
		return nil, "", err
	}
	rules := filepath.Join(dir, "auth.toml")
	command := exec.Command(n.program, "token", "add", "shop", "--auth-file", rules, "--scope", "ingest", "--scope", "read")
	token, err := command.Output()
	if err != nil {
		return nil, "", err
	}
	n.flags = []string{"--auth-file", rules}
	return n, string(token), n.Restart()
}

func newNode(dir string) (*Node, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	n := &Node{Address: "http://" + listen, program: program, dir: dir, listen: listen}
	n.client.Timeout = time.Second
	return n, nil
}

// find returns BUCKSAW_BIN, or the program that was built in the repository.
func find() (string, error) {
	if program := os.Getenv("BUCKSAW_BIN"); program != "" {
		_, err := os.Stat(program)
		return program, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for parent := dir; ; parent = filepath.Dir(parent) {
		for _, profile := range []string{"release", "debug"} {
			program := filepath.Join(parent, "target", profile, "bucksaw")
			if _, err := os.Stat(program); err == nil {
				return program, nil
			}
		}
		if parent == filepath.Dir(parent) {
			return "", errors.New("no program: set BUCKSAW_BIN, or build target/release/bucksaw")
		}
	}
}

// freeAddress returns an address that is not in use. Its port is below those that systems choose for outgoing connections, so
// it is still free when a killed node starts again.
func freeAddress() (string, error) {
	for range 100 {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		if listener, err := net.Listen("tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", errors.New("no port is free")
}

// Restart starts the node again, and waits until it is ready.
func (n *Node) Restart() error {
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	arguments := append([]string{"serve", "--data-dir", filepath.Join(n.dir, "data"), "--listen", n.listen,
		"--listen-fast", "", "--listen-durable", "", "--listen-bulk", "", "--listen-cluster", ""}, n.flags...)
	n.process = exec.Command(n.program, arguments...)
	n.process.Stdout, n.process.Stderr = log, log
	if err := n.process.Start(); err != nil {
		return err
	}
	for begun := time.Now(); !n.isReady(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > startTimeMax {
			n.Kill()
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("the node is not ready: %s", text)
		}
	}
	return nil
}

func (n *Node) isReady() bool {
	response, err := n.client.Get(n.Address + "/-/ready")
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// Kill ends the node at once, as kill -9 does.
func (n *Node) Kill() {
	_ = n.process.Process.Kill()
	_ = n.process.Wait() // Its error is the signal.
}
