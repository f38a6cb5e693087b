package measure

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/loader"
)

// The repository that observers keep. The keys of a document are observed; its cluster and the
// entries of the indexes are what the observer writes.
const (
	fig7Documents = "documents"
	fig7Indexes   = "clustering_keys" // one row for each key
	fig7KeysCol   = "keys"
	fig7Cluster   = "cluster" // in both tables
)

// The repository that batch passes keep, without transactions.
const (
	fig7Raw       = "raw_documents"
	fig7RawFamily = "d" // with the columns keys and cluster
)

// fig7Width is how many raw requests that read many rows are under way at once.
const fig7Width = 4

func fig7Schema(observed ...string) *percolator.Schema {
	return &percolator.Schema{Tables: []percolator.Table{{Name: fig7Documents, Observed: observed}, {Name: fig7Indexes}}}
}

func fig7DocumentCell(number uint32, column string) percolator.Cell {
	return percolator.Cell{Table: fig7Documents, Row: fig7Row(number), Column: column}
}

func fig7KeyCell(kind int, key uint32) percolator.Cell {
	return percolator.Cell{Table: fig7Indexes, Row: fig7KeyRow(kind, key), Column: fig7Cluster}
}

// fig7Store is both repositories, on one emulator.
type fig7Store struct {
	*environment
	crawl fig7Crawl
	base  *fig7Clusters // the clustering before anything arrives
	admin *bigtable.Client

	scanInterval time.Duration // of workers
}

// startFig7 fills both with the same documents, already clustered. The column of the keys is
// observed only when they are there: so there is nothing to run for.
func startFig7(ctx context.Context, b *fig7Benchmark, emulator string) (s *fig7Store, err error) {
	s = &fig7Store{crawl: newFig7Crawl(b.documents, b.seed), base: newFig7Clusters(), scanInterval: b.scanInterval}
	if s.environment, err = startEnvironment(ctx, emulator, fig7Schema()); err != nil {
		return nil, err
	}
	_, err = s.orClose(s.fill(ctx))
	return s, err
}

func (s *fig7Store) fill(ctx context.Context) (err error) {
	if s.admin, err = s.raw(ctx); err != nil {
		return err
	}
	entries := make([]int, s.crawl.documents)
	for n := range entries {
		_, entries[n] = s.base.add(s.crawl.document(n))
	}
	if err := s.fillObserved(ctx, entries); err != nil {
		return fmt.Errorf("filling the observed repository: %w", err)
	}
	if err := createSchema(ctx, fig7Schema(fig7KeysCol), s.options...); err != nil {
		return err
	}
	if err := s.fillRaw(ctx); err != nil {
		return fmt.Errorf("filling the raw repository: %w", err)
	}
	return nil
}

// fillObserved loads the documents with the index entries that each of them made.
func (s *fig7Store) fillObserved(ctx context.Context, entries []int) (err error) {
	client, err := s.client(ctx, percolator.Config{})
	if err != nil {
		return err
	}
	numbers := func(context.Context) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			for n := range entries {
				if !yield(n, nil) {
					return
				}
			}
		}
	}
	_, err = loader.Load(ctx, client, loader.Config{TxnOptions: []percolator.TxnOption{percolator.Blind()}}, loader.Job[int]{
		Source: loader.Replay(numbers, nil),
		Write: loader.Each(func(_ context.Context, tx *percolator.Txn, n int) error {
			d := s.crawl.document(n)
			cluster := encodeFig7Cluster(s.base.of[d.number])
			err := errors.Join(
				tx.Set(fig7DocumentCell(d.number, fig7KeysCol), d.encode()),
				tx.Set(fig7DocumentCell(d.number, fig7Cluster), cluster),
			)
			for kind, key := range d.keys[:entries[n]] {
				err = errors.Join(err, tx.Set(fig7KeyCell(kind, key), cluster))
			}
			return err
		}),
	})
	return errors.Join(err, client.Flush(ctx))
}

// fillRaw creates the table and writes the documents.
func (s *fig7Store) fillRaw(ctx context.Context) error {
	if err := s.createRaw(ctx, fig7Raw, fig7RawFamily, bigtable.MaxVersionsPolicy(1)); err != nil {
		return err
	}
	rows := make([]string, s.crawl.documents)
	mutations := make([]*bigtable.Mutation, len(rows))
	for n := range rows {
		d := s.crawl.document(n)
		rows[n], mutations[n] = fig7Row(d.number), bigtable.NewMutation()
		mutations[n].Set(fig7RawFamily, fig7KeysCol, fig7Now(), d.encode())
		mutations[n].Set(fig7RawFamily, fig7Cluster, fig7Now(), encodeFig7Cluster(s.base.of[d.number]))
	}
	return applyBulk(ctx, s.admin.Open(fig7Raw), rows, mutations)
}

// remove deletes rows, as if they had never been there: nobody is using the table.
func (s *fig7Store) remove(ctx context.Context, table string, rows []string) error {
	mutations := make([]*bigtable.Mutation, len(rows))
	for i := range mutations {
		mutations[i] = bigtable.NewMutation()
		mutations[i].DeleteRow()
	}
	return applyBulk(ctx, s.admin.Open(table), rows, mutations)
}

// documentRows are those of all arrivals.
func (a fig7Arrivals) documentRows() []string {
	rows := []string{fig7Row(uint32(a.awake()))}
	for i := range a.due {
		rows = append(rows, fig7Row(uint32(a.number(i))))
	}
	return rows
}

// keyRows are those of all keys of arrivals that no document of the repository has brought:
// whatever they have written to the indexes.
func (s *fig7Store) keyRows(a fig7Arrivals) []string {
	rows := map[string]bool{}
	for n := a.awake(); n < a.end(); n++ {
		for kind, key := range s.crawl.document(n).keys {
			if _, old := s.base.index[kind][key]; !old {
				rows[fig7KeyRow(kind, key)] = true
			}
		}
	}
	out := make([]string, 0, len(rows))
	for row := range rows {
		out = append(out, row)
	}
	return out
}

// fig7Now is the timestamp of a raw write: tables count in milliseconds.
func fig7Now() bigtable.Timestamp { return bigtable.Now().TruncateToMilliseconds() }
