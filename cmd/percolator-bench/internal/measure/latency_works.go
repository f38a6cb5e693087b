package measure

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	btpb "cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/gopercolator/percolator/percolator"
)

// latencyWork is one kind of transaction.
type latencyWork struct {
	name        string
	goal        float64 // of the multiple; 0: none was set
	peer        string  // the multiple of TiKV's client, measured the same way
	storageGoal int     // of storage requests
	storagePeer string
	blind       bool
	rows        int // that one transaction writes

	prepare func(ctx context.Context, row string) error // before the clock is started; nil: nothing
	run     func(ctx context.Context, row string) error

	transactions int // that were run

	requests         map[string][]float64 // of each transaction that was counted, by kind, phase two included
	means, multiples []float64            // of each repetition: milliseconds, raw requests
	atHand           int                  // transactions that waited for one timestamp only
	ahead            int64                // timestamps that were fetched in the background
}

// works are the kinds of transactions. Each transaction writes rows of its own, whose names begin
// with its row; what they hold is their name, so that everything can be verified in the end.
func (f *latencyField) works() []*latencyWork {
	var works []*latencyWork
	add := func(w latencyWork) { works = append(works, &w) }
	add(latencyWork{name: "begin, get", run: func(ctx context.Context, _ string) error {
		tx, err := f.client.Begin(ctx)
		if err != nil {
			return err
		}
		return f.get(ctx, tx, knownRow)
	}})
	add(latencyWork{name: "begin, set, commit", goal: 4.2, peer: "4.24", rows: 1, run: f.writing(1)})
	add(latencyWork{name: "begin, set, commit: blind", goal: 3.2, blind: true, rows: 1, run: f.writing(1, percolator.Blind())})
	add(latencyWork{name: "begin, get, set 2 rows, commit", goal: 5.2, peer: "5.33", rows: 2, run: func(ctx context.Context, row string) error {
		tx, err := f.client.Begin(ctx)
		if err != nil {
			return err
		}
		if err := f.get(ctx, tx, knownRow); err != nil {
			return err
		}
		return setAndCommit(ctx, tx, row, 2)
	}})
	add(latencyWork{name: "begin, set 10 rows, commit", goal: 4.3, peer: "4.31", storageGoal: 12, storagePeer: "20", rows: 10, run: f.writing(10)})
	add(latencyWork{name: "begin, set 10 rows, commit: blind", goal: 3.3, storageGoal: 12, blind: true, rows: 10,
		run: f.writing(10, percolator.Blind())})
	add(latencyWork{name: "begin, get past a lock whose primary is committed", storageGoal: 3, rows: 2,
		prepare: func(ctx context.Context, row string) error {
			tx, err := f.dying.Begin(ctx)
			if err != nil {
				return err
			}
			return setAndCommit(ctx, tx, row, 2)
		},
		run: func(ctx context.Context, row string) error {
			tx, err := f.client.Begin(ctx)
			if err != nil {
				return err
			}
			return f.get(ctx, tx, rowOf(row, 1)) // not the primary
		}})
	return works
}

// writing sets a number of rows and commits.
func (f *latencyField) writing(rows int, opts ...percolator.TxnOption) func(context.Context, string) error {
	return func(ctx context.Context, row string) error {
		tx, err := f.client.Begin(ctx, opts...)
		if err != nil {
			return err
		}
		return setAndCommit(ctx, tx, row, rows)
	}
}

func setAndCommit(ctx context.Context, tx *percolator.Txn, row string, rows int) error {
	for i := range rows {
		if err := tx.Set(benchCell(rowOf(row, i), bodyColumn), []byte(rowOf(row, i))); err != nil {
			return err
		}
	}
	_, err := tx.Commit(ctx)
	return err
}

func rowOf(row string, i int) string { return fmt.Sprintf("%s-%d", row, i) }

// get reads a row and compares.
func (f *latencyField) get(ctx context.Context, tx *percolator.Txn, row string) error {
	v, err := tx.Get(ctx, benchCell(row, bodyColumn))
	if err == nil && string(v) != row {
		err = fmt.Errorf("row %s holds %q", row, v)
	}
	return err
}

// perform makes one transaction of a kind.
func (f *latencyField) perform(ctx context.Context, w *latencyWork) (time.Duration, error) {
	row := fmt.Sprintf("%s/%06d", w.name, w.transactions)
	w.transactions++
	if w.prepare != nil {
		if err := w.prepare(ctx, row); err != nil {
			return 0, fmt.Errorf("preparing: %w", err)
		}
	}
	return timed(asMeasured(ctx), func(ctx context.Context) error { return w.run(ctx, row) })
}

// count runs transactions one by one, each until its phase two is over, and counts their requests.
// Before them is one that does not count: with the first blind transaction of a client no timestamp
// is at hand.
func (f *latencyField) count(ctx context.Context, w *latencyWork) error {
	w.requests = map[string][]float64{}
	for i := range 1 + countedTransactions {
		before, waited := f.sent.now().requests, f.oracle.waited.Load()
		if _, err := f.perform(ctx, w); err != nil {
			return err
		}
		if err := f.client.Flush(ctx); err != nil {
			return fmt.Errorf("phase two: %w", err)
		}
		sent := minus(f.sent.now().requests, before)
		sent["storage"] = sent["ReadRows"] + sent["CheckAndMutateRow"] + sent["MutateRows"]
		sent["Oracle"] = f.oracle.waited.Load() - waited // only those for which the transaction waited
		for _, kind := range []string{"ReadRows", "CheckAndMutateRow", "MutateRows", "storage", "Oracle"} {
			if i > 0 {
				w.requests[kind] = append(w.requests[kind], float64(sent[kind]))
			}
		}
	}
	return nil
}

// time measures one repetition: transactions and raw requests in turns, each of both kinds of these
// as often as the other.
func (f *latencyField) time(ctx context.Context, iterations int, w *latencyWork) error {
	const rawEach = 3 // raw requests of each kind in a turn
	var ours, reads, mutates time.Duration
	ahead, n := f.oracle.ahead.Load(), 0
	for i := 0; i < iterations; {
		for range rawEach {
			r, err := timed(ctx, f.rawRead)
			if err != nil {
				return fmt.Errorf("raw ReadRow: %w", err)
			}
			m, err := timed(ctx, f.rawMutate)
			if err != nil {
				return fmt.Errorf("raw MutateRow: %w", err)
			}
			reads, mutates, n = reads+r, mutates+m, n+1
		}
		for end := min(i+latencyTurn, iterations); i < end; i++ {
			waited := f.oracle.waited.Load()
			d, err := f.perform(ctx, w)
			if err != nil {
				return err
			}
			if ours += d; f.oracle.waited.Load()-waited == 1 {
				w.atHand++
			}
		}
		if err := f.client.Flush(ctx); err != nil { // the raw requests are not to meet it
			return fmt.Errorf("phase two: %w", err)
		}
	}
	mean, r, m := milliseconds(ours)/float64(iterations), milliseconds(reads)/float64(n), milliseconds(mutates)/float64(n)
	w.ahead += f.oracle.ahead.Load() - ahead
	w.means, w.multiples = append(w.means, mean), append(w.multiples, mean/((r+m)/2))
	f.reads, f.mutates = append(f.reads, r), append(f.mutates, m)
	return nil
}

func timed(ctx context.Context, f func(context.Context) error) (time.Duration, error) {
	begun := time.Now()
	err := f(ctx)
	return time.Since(begun), err
}

// losePhaseTwo makes a client's MutateRows vanish, while the client is told that all is well. What
// its transactions leave in the store is what is there when a client dies right after the commit
// point: the primary's record, and the locks of all other rows. The client itself need not be
// killed for it, and tries nothing again.
func losePhaseTwo() []option.ClientOption {
	return intercepted(nil,
		func(ctx context.Context, desc *grpc.StreamDesc,
			conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			if !strings.HasSuffix(method, "/MutateRows") {
				return open(ctx, desc, conn, method, opts...)
			}
			return &lostMutateRows{ctx: ctx}, nil
		})
}

// lostMutateRows answers a request that nobody gets.
type lostMutateRows struct {
	ctx    context.Context
	answer *btpb.MutateRowsResponse
}

// SendMsg implements grpc.ClientStream.
func (s *lostMutateRows) SendMsg(req any) error {
	s.answer = &btpb.MutateRowsResponse{}
	for i := range req.(*btpb.MutateRowsRequest).Entries {
		s.answer.Entries = append(s.answer.Entries, &btpb.MutateRowsResponse_Entry{Index: int64(i)})
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (s *lostMutateRows) RecvMsg(resp any) error {
	if s.answer == nil {
		return io.EOF
	}
	resp.(*btpb.MutateRowsResponse).Entries = s.answer.Entries
	s.answer = nil
	return nil
}

// CloseSend implements grpc.ClientStream.
func (s *lostMutateRows) CloseSend() error { return nil }

// Context implements grpc.ClientStream.
func (s *lostMutateRows) Context() context.Context { return s.ctx }

// Header implements grpc.ClientStream.
func (s *lostMutateRows) Header() (metadata.MD, error) { return metadata.MD{}, nil }

// Trailer implements grpc.ClientStream.
func (s *lostMutateRows) Trailer() metadata.MD { return metadata.MD{} }
