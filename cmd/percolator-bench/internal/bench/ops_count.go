package bench

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
)

// Kinds of requests to Bigtable.
const (
	kindReadRows          = "ReadRows"
	kindCheckAndMutateRow = "CheckAndMutateRow"
	kindMutateRows        = "MutateRows"
	kindMutateRow         = "MutateRow"
	kindSampleRowKeys     = "SampleRowKeys"
)

// opsCounter counts the requests of a client.
type opsCounter struct {
	mu       sync.Mutex
	requests map[string]int
	origins  map[readOrigin]*OpsOrigin
}

func newOpsCounter() *opsCounter {
	return &opsCounter{requests: map[string]int{}, origins: map[readOrigin]*OpsOrigin{}}
}

// see counts a request.
func (c *opsCounter) see(_ context.Context, req any) {
	kind := ""
	switch r := req.(type) {
	case *btpb.ReadRowsRequest:
		kind = kindReadRows
		c.read(r)
	case *btpb.CheckAndMutateRowRequest:
		kind = kindCheckAndMutateRow
	case *btpb.MutateRowsRequest:
		kind = kindMutateRows
	case *btpb.MutateRowRequest:
		kind = kindMutateRow
	case *btpb.SampleRowKeysRequest:
		kind = kindSampleRowKeys
	default:
		return // that a connection is warm
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[kind]++
}

func (c *opsCounter) read(r *btpb.ReadRowsRequest) {
	origin, n := originOf(r)
	if origin.columns = merged(origin); origin.table == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o := c.origins[origin]
	if o == nil {
		o = &OpsOrigin{Kind: origin.kind, Table: origin.table, Columns: origin.columns}
		c.origins[origin] = o
	}
	o.Requests, o.Rows, o.Cells = o.Requests+1, o.Rows+n.rows, o.Cells+n.cells
}

// take returns what was counted since the last call.
func (c *opsCounter) take() (requests, reads map[string]int, origins []OpsOrigin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests, reads = c.requests, map[string]int{readGet: 0, readScan: 0, readCheck: 0, readSearch: 0, readOwn: 0}
	for _, o := range c.origins {
		origins = append(origins, *o)
		reads[o.Kind] += o.Requests
	}
	slices.SortFunc(origins, func(a, b OpsOrigin) int {
		return cmp.Or(b.Requests-a.Requests,
			strings.Compare(a.Table, b.Table), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Columns, b.Columns))
	})
	c.requests, c.origins = map[string]int{}, map[readOrigin]*OpsOrigin{}
	return requests, reads, origins
}
