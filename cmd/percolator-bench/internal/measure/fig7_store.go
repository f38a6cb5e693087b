package measure

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"cloud.google.com/go/bigtable"

	"github.com/gopercolator/percolator/cmd/percolator-bench/internal/fill"
	"github.com/gopercolator/percolator/percolator"
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
	base  *fig7Clusters                     // the clustering before anything arrives
	table func(name string) *bigtable.Table // as raw requests see it

	scanInterval time.Duration // of workers
}

// startFig7 fills both with the same documents, already clustered. The column of the keys is
// observed only when they are there: so there is nothing to run for.
func startFig7(ctx context.Context, b *fig7Benchmark, emulator string) (*fig7Store, error) {
	s := &fig7Store{crawl: newFig7Crawl(b.Documents, b.Seed), base: newFig7Clusters(), scanInterval: b.ScanInterval,
		environment: startEnvironment(ctx, emulator, fig7Schema())}
	s.table = s.raw(ctx)
	s.createRaw(ctx, fig7Raw, fig7RawFamily, bigtable.MaxVersionsPolicy(1))
	if client := s.client(ctx, percolator.Config{}); s.err == nil {
		s.err = s.fill(ctx, client)
	}
	return s, s.orClose()
}

// fill loads the documents with the index entries that each of them made, and writes them raw.
func (s *fig7Store) fill(ctx context.Context, client *percolator.Client) error {
	entries := make([]int, s.crawl.documents)
	rows, mutations := make([]string, len(entries)), make([]*bigtable.Mutation, len(entries))
	for n := range entries {
		d := s.crawl.document(n)
		var cluster uint32
		cluster, entries[n] = s.base.add(d)
		rows[n], mutations[n] = fig7Row(d.Number), d.mutation()
		mutations[n].Set(fig7RawFamily, fig7Cluster, fig7Now(), encodeFig7(cluster))
	}
	err := fill.Items(ctx, client, len(entries), func(tx *percolator.Txn, n int) error {
		d := s.crawl.document(n)
		cluster := encodeFig7(s.base.of[d.Number])
		err := errors.Join(
			tx.Set(fig7DocumentCell(d.Number, fig7KeysCol), encodeFig7(d)), tx.Set(fig7DocumentCell(d.Number, fig7Cluster), cluster),
		)
		for kind, key := range d.Keys[:entries[n]] {
			err = errors.Join(err, tx.Set(fig7KeyCell(kind, key), cluster))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("filling the observed repository: %w", err)
	}
	if err := s.createSchema(ctx, fig7Schema(fig7KeysCol)); err != nil {
		return err
	}
	return applyBulk(ctx, s.table(fig7Raw), rows, mutations)
}

// mutation writes a document without the protocol.
func (d fig7Document) mutation() *bigtable.Mutation {
	return setCell(fig7RawFamily, fig7KeysCol, fig7Now(), encodeFig7(d))
}

// remove deletes rows, as if they had never been there, while the table is unused.
func (s *fig7Store) remove(ctx context.Context, table string, rows []string) error {
	mutations := make([]*bigtable.Mutation, len(rows))
	for i := range mutations {
		mutations[i] = bigtable.NewMutation()
		mutations[i].DeleteRow()
	}
	return applyBulk(ctx, s.table(table), rows, mutations)
}

// documentRows are those of all arrivals.
func (a fig7Arrivals) documentRows() []string {
	var rows []string
	for n := a.awake(); n < a.end(); n++ {
		rows = append(rows, fig7Row(uint32(n)))
	}
	return rows
}

// keyRows are those of all keys of arrivals that no document of the repository has brought:
// whatever they have written to the indexes.
func (s *fig7Store) keyRows(a fig7Arrivals) []string {
	rows := map[string]bool{}
	for n := a.awake(); n < a.end(); n++ {
		for kind, key := range s.crawl.document(n).Keys {
			if _, old := s.base.index[kind][key]; !old {
				rows[fig7KeyRow(kind, key)] = true
			}
		}
	}
	return slices.Collect(maps.Keys(rows))
}

// fig7Now is the timestamp of a raw write: tables count in milliseconds.
func fig7Now() bigtable.Timestamp { return bigtable.Now().TruncateToMilliseconds() }

// fig7Kinds is how many clustering keys a document has. In a real system they would be a content
// hash, a redirect's target and such.
const fig7Kinds = 3

// fig7Crawl says which documents there are. Documents have numbers in the order of their arrival;
// everything else follows from the number.
type fig7Crawl struct {
	seed      uint64
	documents int    // of the repository; later ones arrive
	keys      uint32 // of each kind
}

// newFig7Crawl has three keys of each kind for four documents of the repository: the paper has 750
// million for a billion.
func newFig7Crawl(documents int, seed uint64) fig7Crawl {
	return fig7Crawl{seed: seed, documents: documents, keys: uint32(max(1, documents*3/4))}
}

// fig7Document is a document as it is stored. It has no body: clustering would not read it.
type fig7Document struct {
	Number uint32
	Keys   [fig7Kinds]uint32
}

// document is the n-th; its keys are uniformly random.
func (c fig7Crawl) document(n int) fig7Document {
	d := fig7Document{Number: uint32(n)}
	random := rand.New(rand.NewPCG(c.seed, uint64(n)))
	for i := range d.Keys {
		d.Keys[i] = random.Uint32N(c.keys)
	}
	return d
}

// fig7Row is the row of a document: one that is nowhere near that of the document before it.
// Different numbers have different rows, for every step of the mixing can be undone.
func fig7Row(number uint32) string {
	z := uint64(number) + 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return fmt.Sprintf("%016x", z^z>>31)
}

// fig7KeyRow is the row of a key's index entry.
func fig7KeyRow(kind int, key uint32) string { return fmt.Sprintf("%d/%08x", kind, key) }

// encodeFig7 encodes a document, or the name of a cluster: that is its canonical document, in
// indexes and in documents.
func encodeFig7[T uint32 | fig7Document](v T) []byte {
	b, _ := binary.Append(nil, binary.BigEndian, v) //nolint:errcheck // its size is fixed
	return b
}

func decodeFig7[T uint32 | fig7Document](b []byte) (v T, err error) {
	n, err := binary.Decode(b, binary.BigEndian, &v)
	if err == nil && n != len(b) {
		err = fmt.Errorf("%d bytes for %d", len(b), n)
	}
	return v, err
}

// fig7Arrivals are documents that arrive, with the moments at which they do. The first of them is
// only there to find everything awake.
type fig7Arrivals struct {
	first    int // document
	due      []time.Duration
	duration time.Duration
}

// arrivals are the documents from first on, as many as the rate says, at least one, each at a
// random moment: a Poisson process of which the number is known.
func (c fig7Crawl) arrivals(first int, rate float64, d time.Duration) fig7Arrivals {
	n := max(1, int(math.Round(rate*d.Seconds())))
	a := fig7Arrivals{first: first + 1, due: make([]time.Duration, n), duration: d}
	random := rand.New(rand.NewPCG(c.seed, 1<<63+uint64(first)))
	for i := range a.due {
		a.due[i] = time.Duration(random.Int64N(int64(d)))
	}
	slices.Sort(a.due)
	return a
}

// number is the document that arrives as the i-th.
func (a fig7Arrivals) number(i int) int { return a.first + i }

// end is the first document after all of them.
func (a fig7Arrivals) end() int { return a.number(len(a.due)) }

// awake is the document that arrives before all of them.
func (a fig7Arrivals) awake() int { return a.first - 1 }

// fig7Clusters is the clustering in memory, one document after the other: what the stores are
// compared with.
//
// Documents are grouped by their keys of the first kind; the first of each group stands for it in
// the grouping by keys of the second kind, and the first of those in that by keys of the third.
// That is what three MapReduces do in a row, and what a lookup "in up to three index tables" does
// for one document (section 3.1 of the paper): it belongs to the cluster that it finds first. With
// keys as in the paper it gives clusters of 3.3 documents and leaves 7 % of all alone, which are
// the figures given there. (Clusters by whatever keys two documents have in common, at any remove,
// would run together to one.)
type fig7Clusters struct {
	// Canonical document by key, among those that take part in that grouping.
	index   [fig7Kinds]map[uint32]uint32
	of      map[uint32]uint32 // canonical document by document
	members map[uint32]int    // by canonical document
}

func newFig7Clusters() *fig7Clusters {
	c := &fig7Clusters{of: map[uint32]uint32{}, members: map[uint32]int{}}
	for kind := range c.index {
		c.index[kind] = map[uint32]uint32{}
	}
	return c
}

// add puts the document into its cluster, and tells in how many indexes it is entered: those before
// the one that knew a key of it.
func (c *fig7Clusters) add(d fig7Document) (canonical uint32, entries int) {
	canonical, entries = d.Number, fig7Kinds
	for kind, key := range d.Keys {
		if found, ok := c.index[kind][key]; ok {
			canonical, entries = found, kind
			break
		}
	}
	for kind, key := range d.Keys[:entries] {
		c.index[kind][key] = canonical
	}
	c.of[d.Number] = canonical
	c.members[canonical]++
	return canonical, entries
}

func (c *fig7Clusters) clone() *fig7Clusters {
	out := &fig7Clusters{of: maps.Clone(c.of), members: maps.Clone(c.members)}
	for kind := range c.index {
		out.index[kind] = maps.Clone(c.index[kind])
	}
	return out
}

// entries are the rows of the indexes, and what they hold.
func (c *fig7Clusters) entries() map[string][]byte {
	rows := map[string][]byte{}
	for kind, index := range c.index {
		for key, canonical := range index {
			rows[fig7KeyRow(kind, key)] = encodeFig7(canonical)
		}
	}
	return rows
}

// mean is how many documents a cluster has.
func (c *fig7Clusters) mean() float64 { return float64(len(c.of)) / float64(len(c.members)) }

// notAlone is the share of documents that are in a cluster of two or more.
func (c *fig7Clusters) notAlone() float64 {
	alone := 0
	for _, n := range c.members {
		if n == 1 {
			alone++
		}
	}
	return 1 - float64(alone)/float64(len(c.of))
}
