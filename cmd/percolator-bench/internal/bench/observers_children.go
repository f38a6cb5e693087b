package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/observers"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// ObserverStore is the process with the store: an emulator of Bigtable and an oracle. It prints where they listen, and lives
// until the input ends.
func ObserverStore(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	bigtable, err := emulator.Start()
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, bigtable.Close()) }()
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- oracle.Serve(ctx, listener) }()
	if err := json.NewEncoder(out).Encode(StoreAddresses{Bigtable: bigtable.Addr(), Oracle: listener.Addr().String()}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	cancel()
	return firstOf(err, <-ended)
}

// ObserverWriter is the process with the writer: for each round that it reads it writes the rows at their moments, and
// prints when they were committed.
func ObserverWriter(ctx context.Context, at StoreAddresses, in io.Reader, out io.Writer) (err error) {
	client, clock, closeAll, err := at.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, closeAll()) }()
	return answer(in, out, func(r round) moments {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		var group errgroup.Group
		begun := time.Now()
		for i, row := range r.Rows {
			if wait := time.Until(begun.Add(r.Moments[i])); wait > 0 {
				time.Sleep(wait)
			}
			group.Go(func() error {
				if err := write(ctx, client, row); err != nil {
					return fmt.Errorf("writing row %q: %w", row, err)
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			return moments{Error: err.Error()}
		}
		return moments{Rows: clock.moments(hopColumn(0))}
	})
}

// ObserverWorker is a process with a worker: for each line that it reads it prints which rows it has run for, and when those
// runs were committed.
func ObserverWorker(ctx context.Context, at StoreAddresses, scanInterval time.Duration, scanOnly bool, in io.Reader, out io.Writer) (err error) {
	client, clock, closeAll, err := at.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, closeAll()) }()
	worker, stop, err := startWorker(ctx, client, 1, observers.Config{ScanInterval: scanInterval, DisableDispatch: scanOnly})
	if err != nil {
		return err
	}
	defer func() { err = firstOf(err, stop()) }()
	return answer(in, out, func(question) moments {
		stats := worker.Stats()
		return moments{Rows: clock.moments(hopColumn(1)), Hinted: stats.Hinted, Found: stats.Found}
	})
}
