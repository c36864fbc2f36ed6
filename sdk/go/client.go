package bucksaw

import (
	"context"
	crand "crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// Client sends records in the background, and reads them. Its functions may be called from any goroutine.
type Client struct {
	settings  Config
	endpoints []*url.URL
	requests  *requester

	buffer  *buffer
	sender  *sender
	reports *reporter

	closing   chan struct{} // Closed by the first Close.
	closed    chan struct{} // Closed when the first Close has ended. closeErr is written before.
	closeErr  error
	closeOnce sync.Once
	stop      context.CancelFunc // Ends what the sender does.
}

// New returns a client with two goroutines, which Close ends. It does not connect.
// It fails if a setting is invalid.
func New(config Config) (*Client, error) {
	return newClient(config, time.Now)
}

func newClient(config Config, now func() time.Time) (*Client, error) {
	settings, err := config.resolved()
	if err != nil {
		return nil, err
	}
	files, err := newTLSFiles(settings)
	if err != nil {
		return nil, err
	}
	endpoints, err := settings.endpoints(files.isAny())
	if err != nil {
		return nil, err
	}
	credentials, err := newCredentials(settings)
	if err != nil {
		return nil, err
	}
	if !settings.InsecureToken {
		if err := credentials.checkSecrecy(endpoints); err != nil {
			return nil, err
		}
	}
	settings.Token = Token{} // The credentials have it.
	query, err := ingestQuery(settings.Durability, settings.Labels)
	if err != nil {
		return nil, err
	}
	requests := &requester{credentials: credentials}
	transport := settings.Transport
	if transport == nil {
		if requests.own, err = newOwnTransport(files); err != nil {
			return nil, err
		}
		transport = requests.own
	}
	requests.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c := &Client{
		settings: settings, endpoints: endpoints, requests: requests,
		buffer:  newBuffer(settings, now, randomKey),
		reports: newReporter(settings.OnError),
		closing: make(chan struct{}), closed: make(chan struct{}),
	}
	c.sender = &sender{
		buffer: c.buffer, reports: c.reports, requests: c.requests, requestTime: settings.RequestTime, now: now,
		random: randomFraction, closing: c.closing, endings: make(chan struct{}),
	}
	for i := range endpoints {
		c.sender.urls = append(c.sender.urls, c.address(i, "/api/v1/ingest", query))
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.reports.run()
	go c.sender.run(ctx)
	return c, nil
}

// address returns the address of a call at an endpoint.
func (c *Client) address(endpoint int, path, query string) string {
	return c.endpoints[endpoint].String() + path + "?" + query
}

func randomKey(at time.Time) string {
	var random [10]byte
	_, _ = crand.Read(random[:]) // It never fails.
	return keyOf(at, random)
}

// Log encodes a record and appends it to the open batch. It does no I/O, and blocks only with Block and a full buffer.
// A record that is dropped is counted in Stats and reported to OnError.
func (c *Client) Log(record Record) {
	at := record.Time
	if at.IsZero() {
		at = time.Now()
	}
	e := newEncoder()
	defer e.release()
	e.begin(at, record.Message, record.Level.String())
	for _, attr := range record.Attrs {
		e.attr(attr)
	}
	_ = c.add(e)
}

// add completes a record and appends it.
func (c *Client) add(e *encoder) error {
	line, err := e.end()
	if err != nil {
		err = c.buffer.tooLarge()
	} else {
		err = c.buffer.add(line)
	}
	switch err {
	case ErrFull:
		c.reports.add(KindFull, 1, err)
	case ErrTooLarge:
		c.reports.add(KindTooLarge, 1, err)
	}
	return err
}

// Flush sends at once, and waits until all records that were logged before it are acknowledged or dropped.
// It fails if the context ends before.
func (c *Client) Flush(ctx context.Context) error {
	newest := c.buffer.flush()
	for {
		hasLeft, progress := c.buffer.hasLeft(newest)
		if hasLeft {
			return nil
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return fmt.Errorf("bucksaw: records are not acknowledged: %w", ctx.Err())
		}
	}
}

// Close sends what is buffered, and waits for at most Config.CloseTime, or until the context ends. It drops the remaining
// records, fails with their number, and ends the goroutines of the client. Records that are logged later are dropped.
// A report to OnError that is still being made may take another 100 ms. Later calls return the result of the first.
func (c *Client) Close(ctx context.Context) error {
	c.closeOnce.Do(func() { go c.close(ctx) })
	ctx, cancel := context.WithTimeout(ctx, c.settings.CloseTime)
	defer cancel()
	select {
	case <-c.closed:
		return c.closeErr
	case <-ctx.Done():
	}
	// What remains takes no time, unless a transport of the program does not end its requests.
	timer := time.NewTimer(2 * lastReportsGrace)
	defer timer.Stop()
	select {
	case <-c.closed:
		return c.closeErr
	case <-timer.C:
		return fmt.Errorf("bucksaw: closing has not ended: %w", ctx.Err())
	}
}

func (c *Client) close(ctx context.Context) {
	defer close(c.closed)
	ctx, cancel := context.WithTimeout(ctx, c.settings.CloseTime)
	defer cancel()
	c.buffer.close()
	close(c.closing)
	select {
	case <-c.sender.endings:
	case <-ctx.Done():
	}
	c.stop()
	<-c.sender.endings // The end of its context ends each of its waits.
	if records := c.buffer.clear(); records > 0 {
		err := fmt.Errorf("not acknowledged within the close time of %v", c.settings.CloseTime)
		c.closeErr = &Error{Kind: KindClosed, Records: records, Err: err}
		c.reports.add(KindClosed, records, err)
	}
	c.reports.close(time.After(lastReportsGrace))
	if c.requests.own != nil {
		c.requests.own.closeIdle()
	}
}

// Stats returns the counters, all of the same moment.
func (c *Client) Stats() Stats { return c.buffer.snapshot() }
