package simulated

import (
	"math"
	"regexp"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/store"
)

// What Cloud Bigtable accepts, as in package emulator.
const (
	readRequestBytes = 512 << 10
	mutationsMost    = 100_000 // of one row, and of one request
	rowKeyBytes      = 4 << 10
	qualifierBytes   = 16 << 10
	valueBytes       = 100 << 20
	rowBytes         = 256 << 20 // of a row, stored or in an answer
	tablesMost       = 1000
	familiesMost     = 100 // of a table
	outstandingMost  = 300_000
)

var (
	tableIDs  = regexp.MustCompile(`^[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}$`)
	familyIDs = regexp.MustCompile(`^[-_.a-zA-Z0-9]{1,64}$`)
)

func refused(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func notFound(message string) error { return status.Error(codes.NotFound, message) }

func tooLarge(row string, size int) error {
	return status.Errorf(codes.FailedPrecondition, "the row %q has %d bytes in this answer, more than %d: use the filter to read less of it", row, size, rowBytes)
}

func rowFull(table, row string) error {
	return status.Errorf(codes.FailedPrecondition, "Error while mutating the row %q (%s) : Reached maximum allowed row size.", row, table)
}

// checkSchema refuses ids that the service does not take, and more families than it takes.
func checkSchema(table string, families []string) error {
	if !tableIDs.MatchString(table) {
		return refused("Invalid id for collection tables, %d bytes", len(table))
	}
	if len(families) > familiesMost {
		return refused("a table would have %d column families, more than %d", len(families), familiesMost)
	}
	if slices.ContainsFunc(families, func(id string) bool { return !familyIDs.MatchString(id) }) {
		return refused("Invalid id for collection columnFamilies")
	}
	return nil
}

// admit counts mutations that have no answer until leave is called, and refuses what is more than a
// table takes.
func (t *table) admit(mutations int) (leave func(), err error) {
	n := int64(mutations)
	leave = func() { t.outstanding.Add(-n) }
	if t.outstanding.Add(n) > outstandingMost {
		leave()
		return nil, status.Error(codes.ResourceExhausted, "You have reached the limit of total mutations in your queue. Throttle your usage and wait for operations to finish.")
	}
	return leave, nil
}

func noFamily(table, row string) error {
	return status.Errorf(codes.NotFound, "Error while mutating the row %q (%s) : Requested column family not found.", row, table)
}

func checkRowKey(key string) error {
	switch {
	case key == "":
		return refused("a row key is empty")
	case len(key) > rowKeyBytes:
		return refused("a row key has %d bytes, more than %d", len(key), rowKeyBytes)
	}
	return nil
}

// checkRead refuses a read that is too large to be sent.
func checkRead(rows store.Rows, q *store.Query) error {
	size := 0
	for _, key := range rows.Keys {
		if err := checkRowKey(key); err != nil {
			return err
		}
		size += len(key) + keyFrame
	}
	for _, r := range rows.Ranges {
		size += len(r.Start) + len(r.End) + 3*keyFrame
	}
	if size > readRequestBytes {
		return refused("the ReadRowsRequest has %d bytes, more than %d", size, readRequestBytes)
	}
	return checkQuery(q)
}

// keyFrame is what Protocol Buffers add to a key.
const keyFrame = 3

// checkQuery refuses what would be too large a filter.
func checkQuery(q *store.Query) error {
	if size := q.FilterBytes(); size > store.FilterBytes {
		return refused("the filter has %d bytes, more than %d", size, store.FilterBytes)
	}
	return nil
}

func checkConditional(m *conditional) error {
	if err := checkRowKey(m.row); err != nil {
		return err
	}
	if err := checkQuery(&m.predicate); err != nil {
		return err
	}
	if len(m.onMatch)+len(m.not) == 0 {
		return refused("the request has no mutations")
	}
	if err := checkChanges(m.onMatch); err != nil {
		return err
	}
	return checkChanges(m.not)
}

func checkEntries(entries []*entry) error {
	n := 0
	for _, e := range entries {
		if n += len(e.changes); n > mutationsMost {
			return refused("the request has more than %d mutations", mutationsMost)
		}
		if err := checkRowKey(e.row); err != nil {
			return err
		}
		if len(e.changes) == 0 {
			return refused("a row has no mutations")
		}
		if err := checkChanges(e.changes); err != nil {
			return err
		}
	}
	return nil
}

func checkChanges(changes []store.Change) error {
	if len(changes) > mutationsMost {
		return refused("a row has %d mutations, more than %d", len(changes), mutationsMost)
	}
	for i := range changes {
		if err := checkChange(&changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// latest is the last timestamp that a cell can have.
const latest = math.MaxInt64 / 1000

func checkChange(c *store.Change) error {
	switch {
	case c.Kind == store.EraseWholeRow:
		return nil
	case c.Kind == store.PutVersion && c.From < 0 || max(c.From, c.To) > latest || min(c.From, c.To) < -latest:
		return refused("a timestamp is out of range: from %d to %d", c.From, c.To)
	case c.Kind == store.PutVersion && len(c.Value) > valueBytes:
		return refused("a value has %d bytes, more than %d", len(c.Value), valueBytes)
	case c.Kind == store.EraseVersions && c.To != 0 && c.From >= c.To:
		return refused("the time range from %d to %d is empty", c.From, c.To)
	case len(c.Column) > qualifierBytes:
		return refused("a qualifier has %d bytes, more than %d", len(c.Column), qualifierBytes)
	}
	return nil
}
