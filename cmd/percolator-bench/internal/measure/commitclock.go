package measure

import (
	"context"
	"sync"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
)

// commitClock notes when the commit points of a client's transactions were passed: when the store's answer to the conditional
// mutation that writes the record of a cell was there. No cell is durable before, and nobody hears of it earlier; the commit
// of an observer is seen in the same way as the commit of a writer, by the same clock, without asking either of them. It
// sees cells in the primaries' rows only.
type commitClock struct {
	mu      sync.Mutex
	at      map[committedCell]time.Time // the first time
	waiting map[committedCell]chan struct{}
}

type committedCell struct{ row, column string }

// recordFamily is where a commit writes its record (docs/PROTOCOL.md, "Cells").
const recordFamily = "write"

func newCommitClock() *commitClock {
	return &commitClock{at: map[committedCell]time.Time{}, waiting: map[committedCell]chan struct{}{}}
}

// option makes a client of Bigtable show its commits to the clock.
func (c *commitClock) option() []option.ClientOption {
	return intercepted(
		func(ctx context.Context, method string, req, resp any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoke(ctx, method, req, resp, conn, opts...)
			if q, ok := req.(*btpb.CheckAndMutateRowRequest); ok && err == nil && resp.(*btpb.CheckAndMutateRowResponse).PredicateMatched {
				c.note(q, time.Now())
			}
			return err
		}, nil)
}

func (c *commitClock) note(req *btpb.CheckAndMutateRowRequest, now time.Time) {
	for _, m := range req.TrueMutations {
		set := m.GetSetCell()
		if set == nil || set.FamilyName != recordFamily {
			continue
		}
		cell := committedCell{string(req.RowKey), string(set.ColumnQualifier)}
		c.mu.Lock()
		if _, again := c.at[cell]; !again {
			c.at[cell] = now
		}
		if w := c.waiting[cell]; w != nil {
			close(w)
			delete(c.waiting, cell)
		}
		c.mu.Unlock()
	}
}

// committed returns when the cell was first committed, the zero time if it was not.
func (c *commitClock) committed(row, column string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at[committedCell{row, column}]
}

// await waits until the cell has been committed, and returns when that was.
func (c *commitClock) await(ctx context.Context, row, column string) (time.Time, error) {
	cell := committedCell{row, column}
	c.mu.Lock()
	at, ok := c.at[cell]
	w := c.waiting[cell]
	if !ok && w == nil {
		w = make(chan struct{})
		c.waiting[cell] = w
	}
	c.mu.Unlock()
	if ok {
		return at, nil
	}
	select {
	case <-w:
		return c.committed(row, column), nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// moments returns all times of a column's commits by row, in nanoseconds since 1970, for another process on this machine.
func (c *commitClock) moments(column string) map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]int64{}
	for cell, at := range c.at {
		if cell.column == column {
			out[cell.row] = at.UnixNano()
		}
	}
	return out
}
