package dev

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// How long writing a snapshot may take: in between, while writes wait, and in the end.
const (
	// Less than the oracle's lease: its record cannot be written meanwhile.
	SaveLimit      = 2 * time.Second
	finalSaveLimit = 10 * time.Minute
)

// saver writes snapshots while the store is in use.
type saver struct {
	data    *dataFile
	logger  *slog.Logger
	changed atomic.Bool // since the last snapshot
}

// onChange takes note of every change but those of the oracle, whose record changes all the time:
// an idle store is not written again and again. Whatever else is stored brings the record with it.
func (s *saver) onChange(table, row string) {
	if strings.HasSuffix(table, "/tables/"+tso.BigtableTable) && (row == devOracleName || strings.HasPrefix(row, "\xff")) {
		return
	}
	if !s.changed.Load() {
		s.changed.Store(true)
	}
}

// run writes a snapshot at every tick if something has changed, until ctx ends.
func (s *saver) run(ctx context.Context, store *emulator.Server, ticks <-chan time.Time) {
	failed, skip := 0, 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if skip > 0 {
			skip--
			continue
		}
		if !s.changed.Load() {
			continue
		}
		if err := s.between(ctx, store); err == nil {
			failed = 0
		} else if ctx.Err() == nil {
			// A try stops all writers, so try a store that is too large less and less
			// often.
			failed = min(failed+1, 6)
			skip = 1<<failed - 1
			s.logger.Warn("a snapshot was given up; the former one stays, if there is one, and a crash would lose later changes",
				"next", fmt.Sprintf("in %d times --save-every", skip+1), "error", err)
		}
	}
}

// between writes a snapshot in between. All changes wait for it, so that it is the store as of one
// instant.
func (s *saver) between(ctx context.Context, store *emulator.Server) error {
	ctx, cancel := context.WithTimeout(ctx, SaveLimit)
	defer cancel()
	frozen := store.Freeze()
	defer frozen.Thaw()
	s.changed.Store(false)
	if _, err := s.data.save(ctx, frozen); err != nil {
		s.changed.Store(true)
		return err
	}
	return nil
}

// final writes the last snapshot. The store stays frozen: what would be answered after it would be
// lost.
func (s *saver) final(store *emulator.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), finalSaveLimit)
	defer cancel()
	s.logger.Info("saving; a second signal ends this process without", "file", s.data.path)
	contents, err := s.data.save(ctx, store.Freeze())
	if err == nil {
		s.logger.Info("saved", "file", s.data.path, totals(contents))
	}
	return err
}
