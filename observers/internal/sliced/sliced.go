// Package sliced is the table layout that combine queues and export queues share.
//
// A key belongs to one of a fixed number of parts. Each part has a weak column with an observer,
// and a row for each slice of 2²⁴ ticks (4.1 s) of start timestamps, which carries the slice's
// notification. The row's name is a prefix of those that hold the entries of the slice.
package sliced

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

const sliceBits = 24

// RowBytes is the length of a slice's row name in bytes.
const RowBytes = 3 + 1 + (64-sliceBits)/4

// Prefix begins the names of all rows of a part.
func Prefix(part int) string { return fmt.Sprintf("%03x.", part) }

// Row names the slice of a part that start lies in, in hexadecimal digits.
func Row(part int, start tso.Timestamp) string {
	return fmt.Sprintf("%s%010x", Prefix(part), uint64(start)>>sliceBits)
}

// Part returns the part that a row's name begins with.
func Part(row string) (int, error) {
	if len(row) < RowBytes || row[3] != '.' {
		return 0, strconv.ErrSyntax
	}
	part, err := strconv.ParseUint(row[:3], 16, 12)
	return int(part), err
}

// Of returns the part of a key, the same in every process and every version.
func Of(key string, parts int) int {
	h := fnv.New64a()
	h.Write([]byte(key))
	s := h.Sum64()
	return int((s ^ s>>32) % uint64(parts))
}

// Table declares a weak column for each part, and a few splits.
func Table(name string, parts int, column func(part int) string) percolator.Table {
	t := percolator.Table{Name: name}
	for p := range parts {
		t.Weak = append(t.Weak, column(p))
		if p > 0 && p%max(1, parts/4) == 0 {
			t.Splits = append(t.Splits, Prefix(p))
		}
	}
	return t
}

// Undeclared says how the table of a queue is declared, if that is what err is about.
func Undeclared(err error) error {
	if errors.Is(err, percolator.ErrSchemaMismatch) {
		return fmt.Errorf("%w; it is the table of a queue: add queue.Table() to Schema.Tables", err)
	}
	return err
}

// Observe registers an observer for each part of t, of which one worker runs one at a time, and
// whose runs may cause each other until nothing is left. Its name is name and the part. f returns
// the part's function; nil is for NewWorker to report.
func Observe(r *observers.Registry, name string, t percolator.Table, f func(part int) observers.Func, opts []observers.Option) {
	opts = append(opts[:len(opts):len(opts)], observers.OneWorker(), observers.MaxConcurrent(1), observers.Repeats())
	for p, column := range t.Weak {
		r.Observe(observer(name, p), t.Name, column, f(p), opts...)
	}
}

// Observers returns the names of the observers that Observe registers for so many parts.
func Observers(name string, parts int) []string {
	names := make([]string, parts)
	for p := range names {
		names[p] = observer(name, p)
	}
	return names
}

func observer(name string, part int) string { return fmt.Sprintf("%s-%03x", name, part) }

// SetDefault replaces a 0 in Config.field by zero. percolator.ErrInvalidArgument: the value is
// negative or above most.
func SetDefault(field string, value *int, zero, most int) error {
	if *value < 0 || *value > most {
		return fmt.Errorf("%w: Config.%s is not between 0 and %d", percolator.ErrInvalidArgument, field, most)
	}
	*value = cmp.Or(*value, zero)
	return nil
}
