package bucksaw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestVectorsOfTokens(t *testing.T) {
	type vector struct {
		Name, Text string
		Token      *string
	}
	for _, v := range readVectors[[]vector](t, "tokens.json") {
		got, err := parseToken(v.Text)
		if (err == nil) != (v.Token != nil) || v.Token != nil && got != *v.Token {
			t.Errorf("%s: got %q, %v", v.Name, got, err)
		}
		file := filepath.Join(t.TempDir(), "token")
		replaceText(t, file, []byte(v.Text))
		if got, err := readToken(file); (err == nil) != (v.Token != nil) || v.Token != nil && got != *v.Token {
			t.Errorf("%s in a file: got %q, %v", v.Name, got, err)
		}
	}
}

func TestVectorsOfEndpointsWithTokens(t *testing.T) {
	type vector struct {
		Endpoint string
		Sent     bool
	}
	for _, v := range readVectors[[]vector](t, "token_endpoints.json") {
		config := Config{Endpoints: []string{v.Endpoint}, Token: NewToken("bks_secret")}
		client, err := New(config)
		if err == nil {
			closeClient(t, client)
		}
		if (err == nil) != v.Sent || err != nil && strings.Contains(err.Error(), "bks_secret") {
			t.Errorf("%s: got %v", v.Endpoint, err)
		}
		config.InsecureToken = true
		if client, err := New(config); err != nil {
			t.Errorf("%s: got %v", v.Endpoint, err)
		} else {
			closeClient(t, client)
		}
	}
	for endpoint, want := range map[string]bool{"http://u:p@127.0.0.1": true, "http://u:bks_secret@a": false, "https://u:p@a": true} {
		client, err := New(Config{Endpoints: []string{endpoint}})
		if err == nil {
			closeClient(t, client)
		}
		if (err == nil) != want || err != nil && strings.Contains(err.Error(), "bks_secret") {
			t.Errorf("%s: got %v", endpoint, err)
		}
	}
}

// TestTokenIsSentWithEachRequest checks that the setting counts more than the environment, and a password more than both.
func TestTokenIsSentWithEachRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	replaceText(t, file, []byte("bks_file\n"))
	for _, c := range []struct {
		environment string
		config      Config
		user, want  string
	}{
		{"", Config{}, "", ""}, {" \n", Config{}, "", ""}, {" bks_env\n", Config{}, "", "Bearer bks_env"},
		{"bks_env", Config{Token: NewToken("bks_set ")}, "", "Bearer bks_set"},
		{"bks_env", Config{TokenFile: file}, "", "Bearer bks_file"},
		{"bks_env", Config{}, "u:p@", "Basic dTpw"},
	} {
		t.Setenv(tokenVariable, c.environment)
		s := newStub(t, acceptAll)
		c.config.Endpoints = []string{strings.Replace(s.URL, "://", "://"+c.user, 1)}
		client, _ := newTestClient(t, c.config)
		client.Log(Record{Message: "m"})
		flush(t, client)
		s.answer = func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, statsLine) }
		_, _ = readAll(t, client, QueryOptions{})
		_, _ = client.Count(within(t), QueryOptions{})
		for range client.Tail(within(t), TailOptions{}) {
		}
		requests := s.received()
		if len(requests) != 4 {
			t.Fatalf("got %+v", requests)
		}
		for _, request := range requests {
			if request.authorization != c.want {
				t.Errorf("%s: got %q, want %q", request.query, request.authorization, c.want)
			}
		}
	}
}

// TestTokenIsReplacedWithoutLoss has a node that denies access until the file has the new token.
func TestTokenIsReplacedWithoutLoss(t *testing.T) {
	for _, status := range []int{401, 403} {
		s := newStub(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer bks_new" {
				accept(w)
				return
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"error":"the credential has expired"}`)
		})
		file := filepath.Join(t.TempDir(), "token")
		replaceText(t, file, []byte("bks_old"))
		client, reported := newTestClient(t, Config{Endpoints: []string{s.URL}, TokenFile: file, BatchAge: time.Millisecond})
		client.Log(Record{Message: "m"})
		eventually(t, "a report", func() bool {
			records, last := reported.records(KindDenied)
			return records > 0 && last == "the credential has expired"
		})
		if stats := client.Stats(); stats.BufferedRecords != 1 || stats.Denied == 0 || stats.Dropped.Total() != 0 {
			t.Errorf("got %+v", stats)
		}
		want := "the credential has expired"
		for range 2 {
			if _, err := client.Count(within(t), QueryOptions{}); err == nil || err.Error() != "bucksaw: "+want {
				t.Errorf("got %v", err)
			}
			replaceText(t, file, nil)
			want = "the credential has expired (a changed file cannot be used: the token file " + file + ": it has no token)"
		}
		replaceText(t, file, []byte("bks_new\n"))
		flush(t, client)
		stats := client.Stats()
		if stats.Acknowledged != 1 || stats.Dropped.Total() != 0 || stats.Denied != stats.Retries {
			t.Errorf("got %+v", stats)
		}
		if records, _ := reported.records(KindRefused); records != 0 {
			t.Error("records were refused")
		}
	}
}

func TestInvalidTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	replaceText(t, file, []byte("bks_secret and more"))
	for _, config := range []Config{
		{Token: NewToken("")}, {Token: NewToken("bks_secret\n1")}, {Token: NewToken("bks_secret"), TokenFile: file}, {TokenFile: file},
		{TokenFile: file + ".missing"}, {TokenFile: filepath.Dir(file)},
	} {
		if client, err := New(config); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, %v", client, err)
		}
	}
	t.Setenv(tokenVariable, "bks_secret and more")
	if _, err := New(Config{}); err == nil || strings.Contains(err.Error(), "secret") ||
		!strings.Contains(err.Error(), tokenVariable) {
		t.Errorf("got %v", err)
	}
}

// TestTokenIsNotShown formats what a program may print, also in fields that are not exported.
func TestTokenIsNotShown(t *testing.T) {
	config := Config{Token: NewToken("bks_secret"), Endpoints: []string{"http://127.0.0.1:1"}, BatchAge: time.Millisecond}
	client, reported := newTestClient(t, config)
	client.Log(Record{Message: "m", Attrs: []slog.Attr{slog.Any("token", config.Token)}})
	eventually(t, "a report", func() bool { records, _ := reported.records(KindRetry); return records > 0 })
	client.buffer.mutex.Lock()
	lines := bytes.Clone(client.buffer.sealed[0].lines)
	client.buffer.mutex.Unlock()
	_ = client.Close(canceled()) // So that nothing changes while it is printed.
	hidden := struct{ config Config }{config}
	var shown strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		_, _ = fmt.Fprintf(&shown, strings.Repeat(verb+" ", 6), config, &config, config.Token, hidden, client, client.requests)
	}
	object, err := json.Marshal(map[string]any{"token": config.Token})
	if err != nil || string(object) != `{"token":"[redacted]"}` {
		t.Errorf("got %s, %v", object, err)
	}
	_, last := reported.records(KindRetry)
	shown.WriteString(last)
	if shown.Write(lines); !strings.Contains(shown.String(), `"token":"[redacted]"`) {
		t.Errorf("got %s", lines)
	}
	for _, secret := range []string{"secret", fmt.Sprintf("%x", "secret")} {
		if strings.Contains(shown.String(), secret) {
			t.Error("the token is shown")
		}
	}
}
