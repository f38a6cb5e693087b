package bench

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/bigtable"
	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/tso"
)

// Rows that are there before anything is measured.
const (
	knownRow = "known"
	rawRow   = "raw" // of the raw requests; one cell, which our clients do not see, as it has no record
)

// rawFamily is that of our data (docs/PROTOCOL.md, "Cells"), so that both sides read and write the same table.
const rawFamily = "data"

// latencyField is a ground with everybody who takes part. The oracle is reached over gRPC like the store, so that a timestamp is no
// cheaper than another request.
type latencyField struct {
	*ground
	oracle *distantOracle
	client *percolator.Client // the one that is measured: everything is far away
	dying  *percolator.Client // leaves locks behind; nothing is far away
	raw    *bigtable.Table    // as far away
	sent   sentRequests       // by client, to the user's table
}

// sentRequests counts.
type sentRequests struct{ readRows, checkAndMutateRow, mutateRows atomic.Int64 }

// see counts requests to the table of the benchmark: a client looks after its schema now and then, which belongs to no transaction.
func (s *sentRequests) see(_ context.Context, req any) {
	ours := func(table string) bool { return strings.HasSuffix(table, "/"+benchTable) }
	switch r := req.(type) {
	case *btpb.ReadRowsRequest:
		if ours(r.TableName) {
			s.readRows.Add(1)
		}
	case *btpb.CheckAndMutateRowRequest:
		if ours(r.TableName) {
			s.checkAndMutateRow.Add(1)
		}
	case *btpb.MutateRowsRequest:
		if ours(r.TableName) {
			s.mutateRows.Add(1)
		}
	}
}

func startLatencyField(ctx context.Context, cfg LatencyConfig) (_ *latencyField, err error) {
	g, err := startGround(ctx, cfg.Emulator, &percolator.Schema{Tables: []percolator.Table{{Name: benchTable}}})
	if err != nil {
		return nil, err
	}
	f := &latencyField{ground: g}
	defer func() {
		if err != nil {
			_ = f.close()
		}
	}()
	near, err := f.serveOracle(ctx)
	if err != nil {
		return nil, err
	}
	f.oracle = &distantOracle{Client: near, delay: cfg.Delay}
	if f.client, err = f.ground.client(ctx, percolator.Config{Oracle: f.oracle}, wire{cfg.Delay, f.sent.see}.option()...); err != nil {
		return nil, err
	}
	if f.dying, err = f.ground.client(ctx, percolator.Config{Oracle: near}, losePhaseTwo()); err != nil {
		return nil, err
	}
	bt, err := f.ground.raw(ctx, wire{delay: cfg.Delay}.option()...)
	if err != nil {
		return nil, err
	}
	f.raw = bt.Open(benchTable)
	if _, err = f.client.Update(ctx, func(_ context.Context, tx *percolator.Txn) error {
		return tx.Set(benchCell(knownRow, bodyColumn), []byte(knownRow))
	}); err != nil {
		return nil, err
	}
	if err = f.rawMutate(ctx); err != nil {
		return nil, err
	}
	return f, f.rawRead(ctx) // both once: the connections stand when the clock is started
}

// serveOracle starts an oracle that is asked over gRPC on loopback.
func (f *latencyField) serveOracle(ctx context.Context) (*tso.Client, error) {
	server, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // until the clients are closed
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(running, l) }()
	f.closers = append(f.closers, func() error { stop(); return <-ended })
	client, err := tso.Dial(ctx, l.Addr().String())
	if err == nil {
		f.closers = append(f.closers, client.Close)
	}
	return client, err
}

// rawRead is a raw ReadRow of one cell.
func (f *latencyField) rawRead(ctx context.Context) error {
	row, err := f.raw.ReadRow(ctx, rawRow, bigtable.RowFilter(bigtable.LatestNFilter(1)))
	if err == nil && len(row[rawFamily]) != 1 {
		err = fmt.Errorf("a raw read found %d cells", len(row[rawFamily]))
	}
	return err
}

// rawMutate is a raw MutateRow of one cell, always at the same timestamp: the row does not grow.
func (f *latencyField) rawMutate(ctx context.Context) error {
	mut := bigtable.NewMutation()
	mut.Set(rawFamily, bodyColumn, 1000, []byte(knownRow))
	return f.raw.Apply(ctx, rawRow, mut)
}

// run makes one transaction of a kind.
func (f *latencyField) run(ctx context.Context, w *latencyWork) (time.Duration, error) {
	row := fmt.Sprintf("%s/%06d", w.name, w.transactions)
	w.transactions++
	if w.prepare != nil {
		if err := w.prepare(ctx, row); err != nil {
			return 0, fmt.Errorf("preparing: %w", err)
		}
	}
	begun := time.Now()
	err := w.run(asMeasured(ctx), row)
	return time.Since(begun), err
}

// verify reads everything that was written and returns how many cells that were.
func (f *latencyField) verify(ctx context.Context, works []*latencyWork) (int, error) {
	want, found := map[string]int{}, map[string]int{}
	for _, w := range works {
		want[w.name] = w.transactions * w.rows
	}
	total := 0
	err := f.dying.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for e, err := range s.Scan(ctx, benchTable, percolator.All()) {
			if err != nil {
				return err
			}
			if string(e.Value) != e.Cell.Row {
				return fmt.Errorf("row %s holds %q", e.Cell.Row, e.Value)
			}
			name, _, _ := strings.Cut(e.Cell.Row, "/")
			found[name]++
			total++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for name, n := range want {
		if found[name] != n {
			return 0, fmt.Errorf("%s: %d rows were committed, %d are there", name, n, found[name])
		}
	}
	return total, nil
}
