package bucksaw

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestEndpoints(t *testing.T) {
	for _, c := range []struct{ environment, want string }{
		{"", "http://127.0.0.1:7650"}, {" , ", "http://127.0.0.1:7650"}, {"http://a:1/, https://b/c/d//", "http://a:1 https://b/c/d"},
		{"localhost:7650,:7651", "http://localhost:7650 http://127.0.0.1:7651"}, {"http://[::1]:5", "http://[::1]:5"},
	} {
		t.Setenv(addressVariable, c.environment)
		endpoints, err := Config{}.endpoints(false)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, endpoint := range endpoints {
			texts = append(texts, endpoint.String())
		}
		if got := strings.Join(texts, " "); got != c.want {
			t.Errorf("%q: got %s", c.environment, got)
		}
	}
	endpoints, err := Config{Endpoints: []string{"http://set:1"}}.endpoints(false)
	if err != nil || len(endpoints) != 1 || endpoints[0].Host != "set:1" {
		t.Errorf("got %v, %v", endpoints, err)
	}
}

func TestInvalidSettings(t *testing.T) {
	for _, config := range []Config{
		{Endpoints: []string{"ftp://user:secret@a"}}, {Endpoints: []string{"http://"}}, {Endpoints: []string{"http://user:secret@a?b=c"}},
		{Endpoints: []string{"http://user:secret@a:port"}}, {Endpoints: []string{"http://a#b"}}, {Endpoints: []string{""}},
		{Durability: "safe"}, {WhenFull: 7}, {BatchBytes: -1}, {BatchBytes: 16 << 20}, {BatchRecords: 40_000}, {BatchAge: -1},
		{BufferBytes: -1}, {BlockTime: -1}, {RequestTime: -1}, {CloseTime: math.MaxInt64},
		{Labels: map[string]string{"": "x"}}, {Labels: map[string]string{"a b": "x"}}, {Labels: map[string]string{"1a": "x"}},
		{Labels: map[string]string{strings.Repeat("a", 129): "x"}}, {Labels: map[string]string{"a": strings.Repeat("x", 1025)}},
	} {
		client, err := New(config)
		if err == nil {
			closeClient(t, client)
			t.Errorf("%+v is valid", config)
		} else if !strings.HasPrefix(err.Error(), "bucksaw: ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v", err)
		}
	}
}

func TestPasswordIsNotReported(t *testing.T) {
	dead := newStub(t, acceptAll)
	dead.Close()
	client, reported := newTestClient(t, Config{Endpoints: []string{strings.Replace(dead.URL, "//", "//user:secret@", 1)}})
	client.Log(Record{Message: "m"})
	eventually(t, "a report", func() bool { records, _ := reported.records(KindRetry); return records > 0 })
	if _, last := reported.records(KindRetry); strings.Contains(last, "secret") {
		t.Errorf("got %s", last)
	}
	if _, err := client.Count(within(t), QueryOptions{}); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("got %v", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	s := newStub(t, acceptAll)
	before := runtime.NumGoroutine()
	for range 20 {
		client, err := New(Config{Endpoints: []string{s.URL}})
		if err != nil {
			t.Fatal(err)
		}
		client.Log(Record{Message: "m"})
		closeClient(t, client)
	}
	eventually(t, "no goroutine of a client", func() bool { return runtime.NumGoroutine() <= before })
}

// TestOutageTakesLittleMemory has a program that flushes often while no node answers. Batches stay few.
func TestOutageTakesLittleMemory(t *testing.T) {
	s, _ := blockedStub(t)
	client, _ := newTestClient(t, Config{Endpoints: []string{s.URL}, BatchAge: time.Hour})
	for range 100 {
		client.Log(Record{Message: "m"})
		_ = client.Flush(canceled())
		eventually(t, "a batch that is being sent", func() bool { return len(s.received()) == 1 })
	}
	if newest := client.buffer.flush(); newest != 2 {
		t.Errorf("got %d batches", newest)
	}
}
