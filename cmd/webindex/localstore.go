package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/gopercolator/percolator/cmd/webindex/index"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

// localStore is a Bigtable emulator and an oracle in this process, with clients of both.
type localStore struct {
	clients []*percolator.Client
	log     *slog.Logger
	closers []func() error // in the order in which they were started
}

// startLocalStore starts a store with the tables of the index and a number of clients.
func startLocalStore(ctx context.Context, clients int, log *slog.Logger) (_ *localStore, err error) {
	s := &localStore{log: log}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	bigtable, err := emulator.Start()
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	s.closers = append(s.closers, bigtable.Close)
	oracle, err := s.startOracle(ctx)
	if err != nil {
		return nil, fmt.Errorf("timestamp oracle: %w", err)
	}
	const project, instance = "demo", "demo"
	if err := percolator.CreateSchema(ctx, project, instance, index.Schema(), bigtable.ClientOptions()...); err != nil {
		return nil, err
	}
	for range clients {
		client, err := percolator.NewClient(ctx, percolator.Config{
			Project: project, Instance: instance, Oracle: oracle, Logger: log,
		}, bigtable.ClientOptions()...)
		if err != nil {
			return nil, err
		}
		s.clients = append(s.clients, client)
		s.closers = append(s.closers, client.Close)
	}
	return s, nil
}

// startOracle starts an oracle that hands out timestamps in this process only, and forgets them
// with it.
func (s *localStore) startOracle(ctx context.Context) (tso.Oracle, error) {
	oracle, err := tso.NewServer(tso.NewMemoryStore(), tso.ServerConfig{Logger: s.log})
	if err != nil {
		return nil, err
	}
	// The store must outlive everything else.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- oracle.Run(ctx) }()
	s.closers = append(s.closers, func() error { cancel(); return <-ended })
	return oracle, nil
}

// close ends everything, last things first.
func (s *localStore) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		if err := s.closers[i](); err != nil {
			s.log.Warn("closing the store", "reason", err)
		}
	}
}
