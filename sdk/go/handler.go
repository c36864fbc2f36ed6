package bucksaw

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// handler is a handler of slog. WithAttrs encodes at once, so a record costs only its own attributes.
type handler struct {
	client  *Client
	options slog.HandlerOptions

	// Encoded members of WithAttrs, with the beginnings of the groups around them, and the position behind them.
	prefix   []byte
	position position
	// Groups that begin with the next attribute, since a group without attributes is left out.
	pending []string
}

// Handler returns a handler for slog that logs through the client. Nil options are the default of slog: from info on.
//
// The time, level and message that ReplaceAttr returns are those of the record, if they have their names and types. A level may
// also become text. A level between two of slog is the lower one; one above slog.LevelError+3 is fatal.
//
// Handle fails if the record is dropped, with ErrFull, ErrTooLarge or ErrClosed.
func (c *Client) Handler(options *slog.HandlerOptions) slog.Handler {
	h := &handler{client: c}
	if options != nil {
		h.options = *options
	}
	return h
}

// Enabled says whether records of this level are logged.
func (h *handler) Enabled(_ context.Context, level slog.Level) bool {
	least := slog.LevelInfo
	if h.options.Level != nil {
		least = h.options.Level.Level()
	}
	return level >= least
}

// Handle logs a record. The context has no effect.
func (h *handler) Handle(_ context.Context, record slog.Record) error {
	e := newEncoder()
	defer e.release()
	if h.options.ReplaceAttr == nil {
		e.begin(record.Time, record.Message, LevelOf(record.Level).String())
		if h.options.AddSource {
			if source := record.Source(); source != nil {
				e.attr(slog.Any(slog.SourceKey, source))
			}
		}
	} else {
		h.beginReplaced(e, record)
	}
	h.resume(e)
	if record.NumAttrs() > 0 {
		var space [4]group
		marks := h.openPending(e, space[:0])
		record.Attrs(func(a slog.Attr) bool {
			e.attr(a)
			return true
		})
		for _, mark := range slices.Backward(marks) {
			e.close(mark)
		}
	}
	for range h.position.depth {
		e.out = append(e.out, '}')
	}
	return h.client.add(e)
}

// WithAttrs returns a handler whose records have these attributes too.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	e := newEncoder()
	defer e.release()
	h.resume(e)
	h.openPending(e, nil)
	start := len(e.out)
	for _, a := range attrs {
		e.attr(a)
	}
	with := *h
	if len(e.out) > start {
		with.prefix, with.position, with.pending = slices.Clone(e.out), e.position, nil
		with.position.groups, with.position.objects = slices.Clone(e.groups), slices.Clone(e.objects)
	} else {
		with.position.dropped, with.position.tooLarge = e.dropped, e.tooLarge
	}
	return &with
}

// WithGroup returns a handler that puts later attributes into this group.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.pending = append(slices.Clip(h.pending), name)
	return &with
}

// resume continues behind the prefix.
func (h *handler) resume(e *encoder) {
	e.replace, e.hasLevel = h.options.ReplaceAttr, true
	before := e.position // Behind the parts of the record.
	e.position = h.position
	e.attributes += before.attributes
	e.dropped += before.dropped
	e.tooLarge = e.tooLarge || before.tooLarge
	e.groups = append(before.groups[:0], h.position.groups...)
	e.objects = before.objects
	for _, o := range h.position.objects {
		e.objects = append(e.objects, object{start: o.start + len(e.out), end: o.end + len(e.out), leaves: o.leaves})
	}
	e.out = append(e.out, h.prefix...)
}

func (h *handler) openPending(e *encoder, marks []group) []group {
	for _, name := range h.pending {
		marks = append(marks, e.open(name))
	}
	return marks
}

// beginReplaced appends what ReplaceAttr makes of the parts of a record. What is no time, level or message any more is an
// attribute, and what has no name is left out.
func (h *handler) beginReplaced(e *encoder, record slog.Record) {
	e.replace = h.options.ReplaceAttr
	var at time.Time
	var level, message string
	var others []slog.Attr
	if !record.Time.IsZero() {
		a := e.replaced(slog.Time(slog.TimeKey, record.Time.Round(0)))
		if a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
			at = a.Value.Time()
		} else {
			others = append(others, a)
		}
	}
	a := e.replaced(slog.Any(slog.LevelKey, record.Level))
	number, isNumber := a.Value.Any().(slog.Level)
	switch {
	case a.Key == slog.LevelKey && isNumber:
		level = LevelOf(number).String()
	case a.Key == slog.LevelKey && a.Value.Kind() == slog.KindString:
		level = a.Value.String()
	default:
		others = append(others, a)
	}
	if h.options.AddSource {
		if source := record.Source(); source != nil {
			others = append(others, e.replaced(slog.Any(slog.SourceKey, source)))
		}
	}
	a = e.replaced(slog.String(slog.MessageKey, record.Message))
	if (a.Key == slog.MessageKey || a.Key == "message") && a.Value.Kind() == slog.KindString {
		message = a.Value.String()
	} else {
		others = append(others, a)
	}
	e.begin(at, message, level)
	e.replace = nil // They were replaced once.
	for _, a := range others {
		e.attr(a)
	}
}
