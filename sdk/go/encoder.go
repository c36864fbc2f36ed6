package bucksaw

import (
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"
)

// Limits of a record.
const (
	lineBytesMax    = 1 << 20
	attributesMax   = 250
	nameBytesMax    = 255
	pooledBytesMax  = 64 << 10
	truncatedMember = `,"bucksaw.truncated_bytes":`
	droppedMember   = `,"bucksaw.dropped_attributes":`
)

// encoder appends one record to a buffer that is used again.
//
// The node makes one attribute of each member of a nested object, and rejects a record with more than 256 of them, or with a
// name of more than 255 bytes including the names of the objects around it. So objects beyond that become JSON text.
type encoder struct {
	out []byte
	// The message, and where it is in out, without quotes.
	message                  string
	messageStart, messageEnd int
	hasLevel                 bool // A level of the record is written, or will be.
	visited                  int  // Number of attributes and groups, also of those that are left out.
	replace                  func([]string, slog.Attr) slog.Attr
	position
}

// position is what an encoder knows of the members before the next one.
type position struct {
	attributes, dropped int
	tooLarge            bool     // Nothing more is appended.
	depth               int      // Number of open groups.
	nameBytes           int      // of the names of the open groups, each with a dot
	groups              []string // The names of the open groups, if there is a function that replaces attributes.
	objects             []object // The values that are objects, in their order.
}

// object is a value of which the node makes one attribute for each leaf: start and end say where it is in out.
type object struct{ start, end, leaves int }

var encoders = sync.Pool{New: func() any { return &encoder{out: make([]byte, 0, 1024)} }}

func newEncoder() *encoder { return encoders.Get().(*encoder) }

// release returns the encoder to the pool. A buffer that has grown large is left to the garbage collector.
func (e *encoder) release() {
	out, groups, objects := e.out[:0], e.groups[:0], e.objects[:0]
	clear(groups[:cap(groups)])
	if cap(out) <= pooledBytesMax {
		*e = encoder{out: out, position: position{groups: groups, objects: objects}}
		encoders.Put(e)
	}
}

// begin appends the members before the attributes. A zero time is left out, and so is an empty level.
func (e *encoder) begin(at time.Time, message, level string) {
	e.out = append(e.out, '{')
	if !at.IsZero() {
		e.out = appendTime(append(e.out, `"time":"`...), at)
		e.out = append(e.out, `",`...)
	}
	e.out = append(e.out, `"message":"`...)
	e.message, e.messageStart = message, len(e.out)
	e.out, _ = appendStringStart(e.out, message, lineBytesMax)
	e.messageEnd = len(e.out)
	e.out = append(e.out, '"')
	if level != "" {
		e.out = appendString(append(e.out, `,"level":`...), level)
		e.hasLevel = true
	}
}

// end completes the line, with its line end. It fails with ErrTooLarge.
func (e *encoder) end() ([]byte, error) {
	e.limitObjects()
	if e.dropped > 0 {
		e.out = strconv.AppendInt(append(e.out, droppedMember...), int64(e.dropped), 10)
	}
	if e.tooLarge {
		return nil, ErrTooLarge
	}
	if len(e.out)+2 > lineBytesMax {
		if err := e.truncate(); err != nil {
			return nil, err
		}
	}
	e.out = append(e.out, '}', '\n')
	return e.out, nil
}

// limitObjects makes JSON text of the objects with the most leaves, until the node makes at most attributesMax attributes.
func (e *encoder) limitObjects() {
	total := e.attributes
	for _, o := range e.objects {
		total += o.leaves - 1
	}
	if total <= attributesMax || e.tooLarge {
		return
	}
	largest := slices.Clone(e.objects)
	slices.SortStableFunc(largest, func(a, b object) int { return b.leaves - a.leaves })
	count := 0
	for ; total > attributesMax; count++ {
		total -= largest[count].leaves - 1
	}
	texts := largest[:count]
	slices.SortFunc(texts, func(a, b object) int { return a.start - b.start })
	out := make([]byte, 0, len(e.out)+len(e.out)/4)
	copied := 0
	for _, o := range texts {
		out = append(out, e.out[copied:o.start]...)
		out = appendString(out, string(e.out[o.start:o.end]))
		copied = o.end
	}
	e.out, e.objects = append(out, e.out[copied:]...), e.objects[:0]
}

// truncate shortens the message so that the line has at most lineBytesMax.
func (e *encoder) truncate() error {
	others := len(e.out) - (e.messageEnd - e.messageStart) + len(truncatedMember) + 2
	digits := len(strconv.Itoa(len(e.message)))
	left := lineBytesMax - others - digits
	if left < 0 {
		return ErrTooLarge
	}
	out := make([]byte, 0, lineBytesMax+64)
	out, whole := appendStringStart(append(out, e.out[:e.messageStart]...), e.message, left)
	out = append(append(out, e.out[e.messageEnd:]...), truncatedMember...)
	e.out = strconv.AppendInt(out, int64(len(e.message)-whole), 10)
	return nil
}

// comma separates members. It appends nothing at the beginning of an object.
func (e *encoder) comma() {
	if n := len(e.out); n == 0 || e.out[n-1] != '{' {
		e.out = append(e.out, ',')
	}
}

// name returns the name of a member at the current depth; ok is false if the attribute is left out.
func (e *encoder) name(name string) (_ string, ok bool) {
	if name == "" {
		name = "_"
	}
	if e.depth == 0 {
		switch name {
		case "time":
			name = "time_"
		case "message":
			name = "message_"
		case "level":
			if e.hasLevel {
				name = "level_"
			}
		}
	}
	// The first condition saves the exact one: U+FFFD has three bytes, in place of one.
	if e.nameBytes+3*len(name) > nameBytesMax && e.nameBytes+storedBytes(name) > nameBytesMax || e.attributes >= attributesMax {
		return "", false
	}
	return name, true
}

// storedBytes returns the number of bytes of a name at the node, which puts U+FFFD in place of NUL.
func storedBytes(name string) int {
	bytes := 0
	for _, r := range name {
		if r == 0 {
			r = utf8.RuneError
		}
		bytes += utf8.RuneLen(r)
	}
	return bytes
}

// attr appends an attribute.
func (e *encoder) attr(a slog.Attr) {
	if e.visited++; e.visited > visitedMax {
		e.dropped++
		return
	}
	value, err := resolve(a.Value)
	if e.replace != nil && err == nil && value.Kind() != slog.KindGroup {
		a = e.replaced(slog.Attr{Key: a.Key, Value: value})
		value, err = resolve(a.Value)
	}
	if err != nil {
		value = slog.StringValue("!ERROR: " + err.Error())
	}
	if a.Key == "" && value.Equal(slog.Value{}) {
		return
	}
	if value.Kind() == slog.KindAny {
		if source, ok := value.Any().(*slog.Source); ok && source != nil {
			value = sourceGroup(source)
		}
	}
	if value.Kind() != slog.KindGroup {
		e.member(a.Key, value)
		return
	}
	attrs := value.Group()
	if len(attrs) == 0 {
		return
	}
	if a.Key == "" {
		for _, member := range attrs {
			e.attr(member)
		}
		return
	}
	if e.depth >= groupDepthMax {
		e.member(a.Key, slog.StringValue("!ERROR: more than 64 groups in each other"))
		return
	}
	mark := e.open(a.Key)
	for _, member := range attrs {
		e.attr(member)
	}
	e.close(mark)
}

// Limits of the recursion: through LogValue a group may contain itself, even several times.
const (
	groupDepthMax = 64
	visitedMax    = 10_000
)

// replaced calls the function of the program. If that fails, the value states it.
func (e *encoder) replaced(a slog.Attr) (out slog.Attr) {
	defer func() {
		if cause := recover(); cause != nil {
			out = slog.Attr{Key: a.Key, Value: slog.StringValue("!ERROR: " + panicText(cause))}
		}
	}()
	return e.replace(e.groups, a)
}

// group is where an open group began.
type group struct {
	start, empty int // Length of out before and after the beginning.
	nameBytes    int
}

// open begins a group. Its name counts for the names in it.
func (e *encoder) open(name string) group {
	mark := group{start: len(e.out), nameBytes: e.nameBytes}
	if e.replace != nil {
		e.groups = append(e.groups, name)
	}
	if e.depth == 0 && (name == "time" || name == "message" || name == "level" && e.hasLevel) {
		name += "_"
	}
	bytes := storedBytes(name)
	if bytes <= nameBytesMax { // A longer one has no members: see name.
		e.comma()
		e.out = append(appendString(e.out, name), ':', '{')
	}
	e.nameBytes += bytes + 1
	e.depth++
	mark.empty = len(e.out)
	return mark
}

// close ends a group, and removes it if it has no members.
func (e *encoder) close(mark group) {
	e.nameBytes = mark.nameBytes
	e.depth--
	if e.replace != nil {
		e.groups = e.groups[:len(e.groups)-1]
	}
	if len(e.out) == mark.empty {
		e.out = e.out[:mark.start]
	} else {
		e.out = append(e.out, '}')
	}
}

// member appends a name and a value that is no group.
func (e *encoder) member(name string, value slog.Value) {
	if e.tooLarge {
		return
	}
	name, ok := e.name(name)
	if !ok {
		e.dropped++
		return
	}
	e.comma()
	e.out = append(appendString(e.out, name), ':')
	e.attributes++
	switch value.Kind() {
	case slog.KindString:
		e.text(value.String())
	case slog.KindInt64:
		e.out = strconv.AppendInt(e.out, value.Int64(), 10)
	case slog.KindUint64:
		e.out = strconv.AppendUint(e.out, value.Uint64(), 10)
	case slog.KindFloat64:
		e.out = appendFloat(e.out, value.Float64())
	case slog.KindBool:
		e.out = strconv.AppendBool(e.out, value.Bool())
	case slog.KindDuration:
		e.out = strconv.AppendInt(e.out, int64(value.Duration()), 10)
	case slog.KindTime:
		e.out = append(e.out, '"')
		e.out = append(value.Time().AppendFormat(e.out, time.RFC3339Nano), '"')
	default:
		e.any(value.Any(), e.nameBytes+storedBytes(name))
	}
	if len(e.out) > 2*lineBytesMax {
		e.tooLarge = true
	}
}

// text appends a string, unless it alone is too large.
func (e *encoder) text(text string) {
	if len(text) > lineBytesMax {
		e.tooLarge = true
		text = ""
	}
	e.out = appendString(e.out, text)
}

// any appends a value of any other type. name is the number of bytes of the whole name of the attribute.
func (e *encoder) any(value any, name int) {
	start := len(e.out)
	text, isText, err := anyText(value)
	switch {
	case err != nil:
		e.text("!ERROR: " + err.Error())
		return
	case isText:
		e.text(text)
		return
	case len(text) > lineBytesMax:
		e.text(text)
		return
	}
	e.out = append(e.out, text...)
	if e.out[start] != '{' {
		return
	}
	found := flatten(e.out[start:], name)
	if found.nameBytes > nameBytesMax {
		// As an object it would have the record rejected. As text it is one attribute.
		e.out = appendString(e.out[:start], text)
		return
	}
	e.objects = append(e.objects, object{start: start, end: len(e.out), leaves: found.leaves})
}

// resolve returns the value behind LogValue.
func resolve(value slog.Value) (_ slog.Value, err error) {
	if value.Kind() != slog.KindLogValuer {
		return value, nil
	}
	defer func() {
		if cause := recover(); cause != nil {
			if isNilPointer(value.Any()) {
				value, err = slog.AnyValue(nil), nil
				return
			}
			err = errors.New(panicText(cause))
		}
	}()
	for range 100 {
		value = value.LogValuer().LogValue()
		if value.Kind() != slog.KindLogValuer {
			return value, nil
		}
	}
	return value, errors.New("LogValue returned a LogValuer 100 times")
}

func sourceGroup(source *slog.Source) slog.Value {
	return slog.GroupValue(
		slog.String("function", source.Function), slog.String("file", source.File), slog.Int("line", source.Line))
}
