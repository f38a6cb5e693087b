package reads

import (
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gopercolator/percolator/internal/engine/layout"
	"github.com/gopercolator/percolator/internal/engine/store"
	"github.com/gopercolator/percolator/percolator/model"
)

// Reading a row costs Bigtable nearly the same as reading one value in it (section 2.5 of the
// paper). So where the rows of a table have turned out to be narrow, a read asks for the whole row
// as of its snapshot. The filter that names no column is the cheapest there is, requests for
// different columns can be sent together, and the other columns of the row need no request of their
// own when the same snapshot asks for them.
//
// A client tries whether rows are narrow; it never assumes so. A table's first reads name their
// columns. Then a trial starts with probes of one row each, one at a time. When enough rows were
// narrow, all reads ask for whole ones. The trial lasts until a row turns out to be wide: the
// filter cuts it off, its answer counts for nothing, and the client reads it again by name. A row
// that is too large to be read whole ends the trial as well, and so do rows that together bring too
// many bytes that no caller wants. The next trial starts after many times as many reads. So a table
// of wide rows costs some requests in a client's life, and the occasional wide row among narrow
// ones ends the trial before long.
//
// Rejected: learning the width from what named reads return, which says nothing about the other
// columns. Rejected: a property of the table in the schema, which an operator would have to know,
// and which is wrong for the one row that grows.
const (
	wholeRowBytes  = 4 << 10 // bytes of values in a narrow row that were not asked for
	wholeReadBytes = 1 << 20 // bytes of values in all rows of a request that were not asked for
	firstTrial     = 256     // reads of a table before the first trial
	probeRows      = 32      // narrow rows in a row before all reads ask for whole ones
	trialGrowth    = 16      // by how much more reads go before the next
	lastTrial      = 1 << 32
)

// look examines a row that the filter of whole rows let through: whether it may have been cut off,
// whether it is too wide to be read whole again, and how many bytes of values it has in columns
// other than asked.
func look(r layout.Row, n int, asked []string) (cut, wide bool, unasked int) {
	cells := len(r.Items)
	for i := range r.Items {
		if !slices.Contains(asked, r.Items[i].Column) {
			unasked += len(r.Items[i].Value)
		}
	}
	cut = cells >= n*store.WholeRowCells
	return cut, cut || unasked > n*wholeRowBytes, unasked
}

// TooLarge reports whether a read of whole rows may have failed because of their size, so that a
// read by name may succeed.
func TooLarge(err error) bool {
	if errors.Is(err, model.ErrOverloaded) {
		return false
	}
	switch status.Code(err) {
	case codes.ResourceExhausted, codes.FailedPrecondition, codes.OutOfRange, codes.InvalidArgument, codes.Internal, codes.DeadlineExceeded:
		return true
	}
	return false
}
