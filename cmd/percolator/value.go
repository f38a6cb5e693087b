package main

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// shownValue is a value as a person reads it: as it is where that is readable and unmistakable, in
// Go's quotes otherwise.
func shownValue(v []byte) string {
	s := string(v)
	unreadable := func(r rune) bool { return r == utf8.RuneError || r != ' ' && !unicode.IsPrint(r) }
	if s == "" || strings.HasPrefix(s, `"`) || strings.TrimSpace(s) != s || strings.ContainsFunc(s, unreadable) {
		return strconv.Quote(s)
	}
	return s
}

// cellJSON is a cell in the output for programs. Names are as shown.
type cellJSON struct {
	Table  string          `json:"table"`
	Row    string          `json:"row"`
	Column string          `json:"column"`
	Type   percolator.Type `json:"type,omitempty"` // absent for bytes, and where none is declared
	valueJSON
	// Committed is the timestamp of the transaction that wrote the value, absent for what a script has
	// written itself.
	Committed   tso.Timestamp `json:"committed,omitempty"`
	CommittedAt *time.Time    `json:"committedAt,omitempty"`
}

// cell is an entry in the output for programs.
func (types columnTypes) cell(e percolator.Entry) cellJSON {
	t := types(e.Cell.Table, e.Cell.Column)
	c := cellJSON{Table: e.Cell.Table, Row: shown(e.Cell.Row), Column: shown(e.Cell.Column), valueJSON: typedJSON(t, e.Value), Committed: e.CommitTS}
	if t != percolator.TypeBytes {
		c.Type = t
	}
	if e.CommitTS != 0 {
		c.CommittedAt = new(e.CommitTS.Time().UTC())
	}
	return c
}

// committed is a commit timestamp in a table.
func committed(ts tso.Timestamp) string {
	if ts == 0 {
		return "by this script"
	}
	return strconv.FormatInt(int64(ts), 10)
}

// commitJSON is what a command that writes prints for programs.
type commitJSON struct {
	Committed   tso.Timestamp `json:"committed"`
	CommittedAt time.Time     `json:"committedAt"`
}

// atTime is a timestamp with its time.
func atTime(ts tso.Timestamp) string {
	return strconv.FormatInt(int64(ts), 10) + " (" + ts.Time().UTC().Format(time.RFC3339) + ")"
}

// names understands arguments that are names of tables, rows or columns.
func names(args []string) ([]string, error) {
	out := make([]string, len(args))
	for i, arg := range args {
		var err error
		if out[i], err = fromShown(arg); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// oneCell is the Args of a command that takes one cell.
var oneCell = takes(3, 3, "a table, a row and a column")

// Row keys and names of columns may hold any bytes. They are shown as they are where that is
// readable, and in Go's quotes otherwise; both forms are understood as arguments.

func shown(key string) string {
	unreadable := func(r rune) bool { return r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if key == "" || strings.HasPrefix(key, `"`) || strings.ContainsFunc(key, unreadable) {
		return strconv.Quote(key)
	}
	return key
}

func fromShown(arg string) (string, error) {
	if !strings.HasPrefix(arg, `"`) {
		return arg, nil
	}
	key, err := strconv.Unquote(arg)
	if err != nil {
		return "", usagef("%s is not a string in quotes", arg)
	}
	return key, nil
}
