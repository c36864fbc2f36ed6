package bucksaw_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"bucksaw"
	"bucksaw/internal/node"
)

func startNode(t *testing.T) *node.Node {
	t.Helper()
	n, err := node.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)
	return n
}

func newClient(t *testing.T, config bucksaw.Config) *bucksaw.Client {
	t.Helper()
	client, err := bucksaw.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// within only ends a test that would hang.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func flush(t *testing.T, client *bucksaw.Client) {
	t.Helper()
	if err := client.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
}

func query(t *testing.T, client *bucksaw.Client, options bucksaw.QueryOptions) (records []bucksaw.StoredRecord) {
	t.Helper()
	for record, err := range client.Query(within(t), options) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	return records
}

// brief returns the beginning of a long value.
func brief(records []bucksaw.StoredRecord) string {
	return fmt.Sprintf("%d records: %.1000s", len(records), fmt.Sprintf("%+v", records))
}

func TestRecordsComeBackFromTheNode(t *testing.T) {
	n := startNode(t)
	client := newClient(t, bucksaw.Config{
		Endpoints: []string{n.Address}, Labels: map[string]string{"service.name": "shop", "k": "a b,c=\"d\"é"},
	})
	logger := slog.New(client.Handler(&slog.HandlerOptions{AddSource: true, Level: slog.LevelDebug}))
	logger.With("a", 1).WithGroup("g").With("b", "x").Error("failed \"é\"\nsecond line\r\n",
		"c", 1.5, "list", []any{1, "<&>", math.NaN()}, slog.Group("h", "d", true), bucksaw.Err(errors.New("cause")),
		"none", nil, "object", map[string]any{"e": map[string]int{"f": 2}})
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Nanosecond)
	client.Log(bucksaw.Record{Time: at, Level: bucksaw.LevelFatal, Message: "\x00\xff end", Attrs: []slog.Attr{slog.Int("level", 7)}})
	many := make(map[string]int, 1000)
	for i := range 1000 {
		many[fmt.Sprint(i)] = i
	}
	client.Log(bucksaw.Record{Level: bucksaw.LevelTrace, Message: "many", Attrs: []slog.Attr{slog.Any("many", many)}})
	var attrs []slog.Attr
	for i := range 400 {
		attrs = append(attrs, slog.Group(fmt.Sprint(i), slog.Int("n", i)))
	}
	logger.LogAttrs(within(t), slog.LevelDebug, strings.Repeat("é", 600_000), attrs...)
	flush(t, client)
	if stats := client.Stats(); stats.Acknowledged != 4 {
		t.Fatalf("got %+v", stats)
	}

	failed := query(t, client, bucksaw.QueryOptions{Expr: "@level=error service.name=shop"})
	if len(failed) != 1 || failed[0].Text() != "failed \"é\"\nsecond line" || failed[0].Labels["k"] != "a b,c=\"d\"é" {
		t.Fatalf("got %+v", failed)
	}
	got := failed[0].Attributes
	if !strings.HasSuffix(got["source.file"], "/node_test.go") || got["source.line"] == "" || got["source.function"] == "" {
		t.Errorf("got %v", got)
	}
	for name := range got {
		if strings.HasPrefix(name, "source.") {
			delete(got, name)
		}
	}
	want := map[string]string{
		"level": "error", "a": "1", "g.b": "x", "g.c": "1.5", "g.list": `[1,"<&>","NaN"]`, "g.h.d": "true",
		"g.exception.type": "*errors.errorString", "g.exception.message": "cause", "g.object.e.f": "2",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	fatal := query(t, client, bucksaw.QueryOptions{Expr: "@level=fatal"})
	if len(fatal) != 1 || fatal[0].Text() != "\x00\ufffd end" || fatal[0].Attributes["level_"] != "7" ||
		fatal[0].Time.UnixMicro() != at.UnixMicro() {
		t.Errorf("got %+v, logged at %v", fatal, at)
	}
	trace := query(t, client, bucksaw.QueryOptions{Expr: "@level=trace"})
	if len(trace) != 1 || len(trace[0].Attributes["many"]) < 1000 {
		t.Errorf("got %s", brief(trace))
	}
	long := query(t, client, bucksaw.QueryOptions{Expr: "@level=debug"})
	if len(long) != 1 || len(long[0].Line) < 1_000_000 || long[0].Attributes["bucksaw.truncated_bytes"] == "" ||
		long[0].Attributes["bucksaw.dropped_attributes"] != "153" {
		t.Errorf("got %s", brief(long))
	}

	var stats bucksaw.QueryStats
	count, err := client.Count(within(t), bucksaw.QueryOptions{From: bucksaw.At(at), Stats: &stats})
	if err != nil || count != 4 || stats.NodesAnswered != 1 {
		t.Errorf("got %d, %v, %+v", count, err, stats)
	}
	newest := query(t, client, bucksaw.QueryOptions{NewestFirst: true, Limit: 3})
	// Records of one millisecond have the order of their ids.
	if len(newest) != 3 || newest[0].Time.Truncate(time.Millisecond).Before(newest[2].Time.Truncate(time.Millisecond)) {
		t.Errorf("got %s", brief(newest))
	}
	page := query(t, client, bucksaw.QueryOptions{NewestFirst: true, After: newest[2].ID})
	if len(page) != 1 || page[0].ID != fatal[0].ID {
		t.Errorf("got %s", brief(page))
	}
	var status *bucksaw.StatusError
	if _, err := client.Count(within(t), bucksaw.QueryOptions{Expr: "("}); !errors.As(err, &status) || status.Status != 400 {
		t.Errorf("got %v", err)
	}
}

func TestNodeWithTLS(t *testing.T) {
	if !node.Has("certs") {
		t.Skip("the program has no TLS")
	}
	n, err := node.StartTLS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)
	client := newClient(t, bucksaw.Config{
		Endpoints: []string{n.Address}, CAFile: n.CAFile, CertificateFile: n.CertificateFile, KeyFile: n.KeyFile,
	})
	client.Log(bucksaw.Record{Message: "encrypted"})
	flush(t, client)
	if stats := client.Stats(); stats.Acknowledged != 1 {
		t.Errorf("got %+v", stats)
	}
	if records := query(t, client, bucksaw.QueryOptions{}); len(records) != 1 || records[0].Text() != "encrypted" {
		t.Errorf("got %s", brief(records))
	}
	for want, config := range map[string]bucksaw.Config{
		"the node requires a client certificate":                    {CAFile: n.CAFile},
		"the certificate of the node is not signed by a trusted CA": {},
	} {
		config.Endpoints = []string{n.Address}
		refused := newClient(t, config)
		waitUntil(t, func() bool { // The node may close the connection before its reason is read.
			_, err := refused.Count(within(t), bucksaw.QueryOptions{})
			return err != nil && strings.Contains(err.Error(), want)
		})
	}
}

func TestNodeWithToken(t *testing.T) {
	if !node.Has("token") {
		t.Skip("the program has no tokens")
	}
	n, token, err := node.StartWithToken(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Kill)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("bks_wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	client := newClient(t, bucksaw.Config{Endpoints: []string{n.Address}, TokenFile: file, BatchAge: time.Millisecond})
	client.Log(bucksaw.Record{Message: "recognised"})
	waitUntil(t, func() bool { return client.Stats().Denied > 0 })
	var status *bucksaw.StatusError
	if _, err := client.Count(within(t), bucksaw.QueryOptions{}); !errors.As(err, &status) || status.Status != 401 {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	flush(t, client)
	if stats := client.Stats(); stats.Acknowledged != 1 || stats.Dropped.Total() != 0 {
		t.Errorf("got %+v", stats)
	}
	if records := query(t, client, bucksaw.QueryOptions{}); len(records) != 1 || records[0].Text() != "recognised" {
		t.Errorf("got %s", brief(records))
	}
}

func TestTailOfTheNode(t *testing.T) {
	n := startNode(t)
	client := newClient(t, bucksaw.Config{Endpoints: []string{n.Address}, BatchAge: time.Millisecond})
	seen := make(chan struct{})
	var logger sync.WaitGroup
	logger.Go(func() { // The tail has no sign of its start: records are logged until one is seen.
		for i := 0; ; i++ {
			client.Log(bucksaw.Record{Message: fmt.Sprint("other ", i)})
			client.Log(bucksaw.Record{Message: fmt.Sprint("wanted ", i)})
			select {
			case <-seen:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	})
	records := 0
	for event, err := range client.Tail(within(t), bucksaw.TailOptions{Expr: "wanted"}) {
		if err != nil {
			t.Error(err)
			break
		}
		if event.Notice == nil && !strings.HasPrefix(event.Record.Text(), "wanted ") {
			t.Errorf("got %+v", event)
		}
		if records++; records == 3 {
			break
		}
	}
	close(seen)
	logger.Wait()
	if records != 3 {
		t.Errorf("got %d records", records)
	}
	var last error
	ctx, cancel := context.WithCancel(within(t))
	time.AfterFunc(50*time.Millisecond, cancel)
	for _, err := range client.Tail(ctx, bucksaw.TailOptions{}) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("got %v", last)
	}
}

// TestRecordsAreStoredOnceThroughKills logs while the node is killed twice and started again.
func TestRecordsAreStoredOnceThroughKills(t *testing.T) {
	const threads, perThread, records = 4, 25_000, 100_000
	n := startNode(t)
	client := newClient(t, bucksaw.Config{
		Endpoints: []string{n.Address}, BatchRecords: 1000, WhenFull: bucksaw.Block, BlockTime: time.Minute,
		OnError: func(err *bucksaw.Error) {
			if err.Kind != bucksaw.KindRetry {
				t.Error(err)
			}
		},
	})
	var loggers sync.WaitGroup
	for thread := range threads {
		logger := slog.New(client.Handler(nil)).With("thread", thread)
		loggers.Go(func() {
			for i := range perThread {
				logger.Info(fmt.Sprintf("record %06d", thread*perThread+i), "n", i)
				if i%100 == 0 { // So that records are logged throughout the kills.
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	for _, acknowledged := range []int64{10_000, 40_000} {
		waitUntil(t, func() bool { return client.Stats().Acknowledged >= acknowledged })
		n.Kill()
		retries := client.Stats().Retries
		waitUntil(t, func() bool { return client.Stats().Retries > retries })
		if err := n.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	loggers.Wait()
	flush(t, client)
	stats := client.Stats()
	if stats.Logged != records || stats.Acknowledged != records || stats.Retries == 0 {
		t.Errorf("got %+v", stats)
	}
	t.Logf("%+v", stats)

	count, err := client.Count(within(t), bucksaw.QueryOptions{})
	if err != nil || count != records {
		t.Errorf("got %d, %v", count, err)
	}
	times := make(map[string]int, records)
	for record, err := range client.Query(within(t), bucksaw.QueryOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		times[record.Text()]++
	}
	for i := range records {
		if message := fmt.Sprintf("record %06d", i); times[message] != 1 {
			t.Fatalf("%s is stored %d times", message, times[message])
		}
	}
	if len(times) != records {
		t.Errorf("got %d messages", len(times))
	}
}

func waitUntil(t *testing.T, condition func() bool) {
	t.Helper()
	for ctx := within(t); !condition(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("never")
		}
	}
}

// readmeBlock returns what follows start in README.md, to the end of its block.
func readmeBlock(t *testing.T, start string) string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(readme), "```go\n"+start)
	block, _, closed := strings.Cut(block, "```")
	if !found || !closed {
		t.Fatalf("README.md has no block that begins with %q", start)
	}
	return start + block
}

// run runs a program as a module of its own, and returns what it prints.
func run(t *testing.T, program, addresses string) string {
	t.Helper()
	library, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	module := "module sample\n\ngo 1.25.0\n\nrequire bucksaw v0.0.0\n\nreplace bucksaw => " + library + "\n"
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(within(t), "go", "run", ".")
	command.Dir = dir
	command.Env = append(os.Environ(),
		"BUCKSAW_ADDR="+addresses, "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOWORK=off")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return string(output)
}

// TestSamplesOfTheReadme runs the code of README.md as it is written there.
func TestSamplesOfTheReadme(t *testing.T) {
	sample := readmeBlock(t, "package main\n")
	if strings.Count(sample, "\n") > 25 {
		t.Error("the sample has more than 25 lines")
	}
	n := startNode(t)
	// The first address of the list is dead.
	if output := run(t, sample, "http://127.0.0.1:1, "+n.Address); !strings.Contains(output, "payment failed u7 <nil>") {
		t.Errorf("got %s", output)
	}
	client := newClient(t, bucksaw.Config{Endpoints: []string{n.Address}})
	if records := query(t, client, bucksaw.QueryOptions{Expr: "service.name=shop order=4711 @level=error"}); len(records) != 1 {
		t.Errorf("got %v", records)
	}
	reading := `package main

import (
	"bucksaw"
	"context"
	"fmt"
)

func main() {
	client, err := bucksaw.New(bucksaw.Config{})
	if err == nil {
		err = read(context.Background(), client)
	}
	fmt.Println(err)
}

func read(ctx context.Context, client *bucksaw.Client) error {
	` + readmeBlock(t, "var stats ") + `
	fmt.Println(stats.Matched, "matched")
	return nil
}
`
	if output := run(t, reading, n.Address); !strings.HasSuffix(output, " shop payment failed\n1 matched\n<nil>\n") {
		t.Errorf("got %s", output)
	}
}
