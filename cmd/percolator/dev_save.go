package main

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// How long writing a snapshot may take: in between, while writes wait, and in the end.
const (
	saveLimit      = 5 * time.Second
	finalSaveLimit = 10 * time.Minute
)

// saver writes snapshots while the store is in use.
type saver struct {
	data    *dataFile
	logger  *slog.Logger
	changed atomic.Bool // since the last snapshot
}

// onChange takes note of every change but those of the oracle, whose record changes all the time: an idle store is not written again
// and again. Whatever else is stored brings the record with it.
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
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if !s.changed.Load() {
			continue
		}
		if err := s.between(ctx, store); err != nil && ctx.Err() == nil {
			s.logger.Warn("a snapshot was given up; the former one stays, and --save-every tries again", "error", err)
		}
	}
}

// between writes a snapshot in between. All changes wait for it, so that it is the store as of one instant.
func (s *saver) between(ctx context.Context, store *emulator.Server) error {
	ctx, cancel := context.WithTimeout(ctx, saveLimit)
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

// final writes the last snapshot. The store stays frozen: what would be answered after it would be lost.
func (s *saver) final(store *emulator.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), finalSaveLimit)
	defer cancel()
	contents, err := s.data.save(ctx, store.Freeze())
	if err == nil {
		s.logger.Info("saved", "file", s.data.path, totals(contents))
	}
	return err
}
