package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"golang.org/x/sync/errgroup"

	"github.com/gopercolator/percolator/cmd/percolator/internal/cli"
	"github.com/gopercolator/percolator/internal/testing/fixture"
	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/admin"
	"github.com/gopercolator/percolator/percolator/emulator"
	"github.com/gopercolator/percolator/tso"
)

func TestDevCrash(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	f := devDefaults(t)
	f.data = filepath.Join(t.TempDir(), "dev.snapshot")
	ticks := make(chan time.Time)
	r := runDev(t, f, func(d *devProcess) { d.ticks = ticks })
	c := devClient(t, r.devAddresses)
	names := []string{"Bob", "Joe", "Ann"}
	ctx, stop := context.WithTimeout(context.Background(), devLimit)
	defer stop()
	balance := percolator.Int64("accounts", "balance")
	if _, err := c.Update(ctx, func(_ context.Context, tx *percolator.Txn) (err error) {
		for _, name := range names {
			err = errors.Join(err, balance.Set(tx, name, 100))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var transfers errgroup.Group
	moving, halt := context.WithCancel(ctx)
	for i := range 3 {
		transfers.Go(func() error {
			for moving.Err() == nil {
				if err := transfer(ctx, c, balance, names[i], names[(i+1)%3]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range 3 {
		ticks <- time.Now() // taken when the one before is done
	}
	ticks <- time.Now()
	crashed := filepath.Join(t.TempDir(), "crashed")
	copyFile(t, f.data, crashed)
	halt()
	if err := transfers.Wait(); err != nil {
		t.Fatal(err)
	}
	latest, err := admin.New(c).Oracle().Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	r.end()

	f.data = crashed
	r = runDev(t, f, nil)
	c = devClient(t, r.devAddresses)
	sum := int64(0)
	if err := c.View(ctx, func(ctx context.Context, s *percolator.Snapshot) error {
		for _, name := range names {
			v, err := balance.Get(ctx, s, name)
			if err != nil {
				return err
			}
			sum += v
		}
		if s.StartTimestamp() <= latest {
			return fmt.Errorf("the timestamp %d is not after %d", s.StartTimestamp(), latest)
		}
		return nil
	}); err != nil || sum != 300 {
		t.Errorf("%d in all, %v", sum, err)
	}
}

func transfer(ctx context.Context, c *percolator.Client, balance percolator.Column[int64], from, to string) error {
	_, err := c.Update(ctx, func(ctx context.Context, tx *percolator.Txn) error {
		a, errA := balance.Get(ctx, tx, from)
		b, errB := balance.Get(ctx, tx, to)
		return errors.Join(errA, errB, balance.Set(tx, from, a-1), balance.Set(tx, to, b+1))
	})
	return err
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDevIdle(t *testing.T) {
	fixture.Long(t)
	t.Parallel()
	f := devDefaults(t)
	f.data = filepath.Join(t.TempDir(), "dev.snapshot")
	ticks := make(chan time.Time)
	r := runDev(t, f, func(d *devProcess) { d.ticks = ticks })
	c := devClient(t, r.devAddresses)
	devSet(t, c, account("Bob", "balance"), "10")
	if err := c.Close(); err != nil { // writes how far the journal is settled
		t.Fatal(err)
	}
	tick := func() {
		t.Helper()
		for range 2 { // the second is taken when the first is done
			ticks <- time.Now()
		}
	}
	tick()
	if err := os.Remove(f.data); err != nil {
		t.Fatal(err)
	}
	store := tso.NewBigtableStore(openTableOf(t, r.devAddresses, tso.BigtableTable), devOracleName)
	before, err := store.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(devLimit); ; time.Sleep(time.Millisecond) { // until the oracle has renewed its lease
		st, err := store.Load(t.Context())
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the record is not renewed: %v", err)
		}
		if st.Version > before.Version {
			break
		}
	}
	tick()
	if _, err := os.Stat(f.data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an idle store was written: %v", err)
	}
	devSet(t, devClient(t, r.devAddresses), account("Bob", "balance"), "11")
	tick()
	if _, err := os.Stat(f.data); err != nil {
		t.Error(err)
	}
}

func TestDevCannotSave(t *testing.T) {
	t.Parallel()
	f := devDefaults(t)
	f.data = filepath.Join(t.TempDir(), "dev.snapshot")
	r := runDev(t, f, nil)
	if err := os.MkdirAll(filepath.Join(f.data, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.stop(); err == nil || !strings.Contains(err.Error(), "could not be written") || cli.ExitCode(err) != cli.ExitFailure {
		t.Errorf("ended with %v", err)
	}
	if left, _ := filepath.Glob(f.data + ".tmp"); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
}

func TestSaveGivenUp(t *testing.T) {
	t.Parallel()
	data, err := openDataFile(filepath.Join(t.TempDir(), "dev.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = data.close() }()
	if err := os.WriteFile(data.path, []byte("the former one"), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := emulator.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if err := (admin.Instance{Project: "dev", ID: "dev", Options: store.ClientOptions()}).CreateMetaTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := &saver{data: data, logger: slog.New(slog.DiscardHandler)}
	if err := s.between(ctx, store); err == nil {
		t.Error("it was written without time")
	}
	if b, err := os.ReadFile(data.path); err != nil || string(b) != "the former one" {
		t.Errorf("the file holds %q, %v", b, err)
	}
	if !s.changed.Load() {
		t.Error("it will not be tried again")
	}
	if err := s.between(t.Context(), store); err != nil {
		t.Error(err)
	}
}

func openTableOf(t *testing.T, a devAddresses, name string) *bigtable.Table {
	t.Helper()
	client, err := bigtable.NewClientWithConfig(t.Context(), a.Project, a.Instance, bigtable.ClientConfig{
		MetricsProvider: bigtable.NoopMetricsProvider{}, DisableDirectAccess: true, DisableSession: true,
	}, emulator.Connect(a.Bigtable)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client.Open(name)
}
