// Command bench measures the time of one logging call while a node receives the records, with one and with four goroutines.
//
//	BUCKSAW_BIN=target/release/bucksaw go run ./bench
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"bucksaw"
	"bucksaw/internal/node"
)

// Each goroutine logs this number of records, at this rate.
const (
	calls     = 200_000
	perSecond = 20_000
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "bucksaw-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	n, err := node.Start(dir)
	if err != nil {
		return err
	}
	defer n.Kill()
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("load before: %s\n", strings.TrimSpace(string(load)))
	for _, goroutines := range []int{1, 4} {
		if err := measure(n.Address, goroutines); err != nil {
			return err
		}
	}
	return nil
}

func measure(address string, goroutines int) error {
	client, err := bucksaw.New(bucksaw.Config{Endpoints: []string{address}, Labels: map[string]string{"service.name": "shop"}})
	if err != nil {
		return err
	}
	logger := slog.New(client.Handler(nil)).With("request", "4bf92f3577b34da6a3ce929d0e0e4736")
	all := make([][]time.Duration, goroutines)
	var loggers sync.WaitGroup
	begun := time.Now()
	for i := range all {
		loggers.Go(func() { all[i] = log(logger) })
	}
	loggers.Wait()
	seconds := time.Since(begun).Seconds()
	if err := client.Close(context.Background()); err != nil {
		return err
	}
	took := slices.Concat(all...)
	slices.Sort(took)
	at := func(fraction float64) time.Duration { return took[int(fraction*float64(len(took)-1))] }
	fmt.Printf("%d goroutines, %.0f records/s: p50 %v, p99 %v, p99.9 %v, max %v; %+v\n", goroutines, float64(len(took))/seconds,
		at(0.5), at(0.99), at(0.999), at(1), client.Stats())
	return nil
}

// log returns the time of each call.
func log(logger *slog.Logger) []time.Duration {
	took := make([]time.Duration, calls)
	ctx := context.Background()
	begun := time.Now()
	for i := range took {
		if ahead := time.Duration(i)*time.Second/perSecond - time.Since(begun); ahead > time.Millisecond {
			time.Sleep(ahead)
		}
		start := time.Now()
		logger.LogAttrs(ctx, slog.LevelInfo, "payment accepted",
			slog.Int("order", i), slog.String("user", "u7"), slog.Duration("took", 1500*time.Microsecond))
		took[i] = time.Since(start)
	}
	return took
}
