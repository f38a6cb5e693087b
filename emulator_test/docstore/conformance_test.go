// Package docstore_test runs a conformance suite that was not written for Percolator: that of
// docstore, the API for documents of the Go CDK, which its drivers for Firestore, DynamoDB and
// MongoDB pass. The driver here uses nothing but package percolator.
package docstore_test

import (
	"context"
	"sync/atomic"
	"testing"

	"gocloud.dev/docstore"
	"gocloud.dev/docstore/driver"
	"gocloud.dev/docstore/drivertest"

	"github.com/gopercolator/percolator/percolator"
	"github.com/gopercolator/percolator/percolator/percolatortest"
)

const keyField = drivertest.KeyField

// TestConformance runs the suite as it is. Its two tests of codecs, for stores with one of their
// own, skip.
func TestConformance(t *testing.T) {
	t.Parallel()
	conform(t, func(percolatortest.Request) percolatortest.Action { return percolatortest.Pass })
}

// TestConformanceUnderFaults runs it while each fifth request to the store is lost, done without an
// answer, or done twice.
func TestConformanceUnderFaults(t *testing.T) {
	t.Parallel()
	faults := []percolatortest.Effect{percolatortest.LoseRequest, percolatortest.LoseAnswer, percolatortest.Duplicate}
	var requests atomic.Int64
	conform(t, func(r percolatortest.Request) percolatortest.Action {
		if r.Method == percolatortest.Oracle { // its client, which repeats what is lost, is not part of this
			return percolatortest.Pass
		}
		n := int(requests.Add(1))
		if n%5 != 0 {
			return percolatortest.Pass
		}
		return faults[n/5%len(faults)]
	})
}

// conform runs the suite with two clients that take turns, so that what one writes the other reads.
func conform(t *testing.T, faults func(percolatortest.Request) percolatortest.Action) {
	drivertest.RunConformanceTests(t, func(_ context.Context, t *testing.T) (drivertest.Harness, error) {
		schema := &percolator.Schema{}
		for _, table := range tables {
			schema.Tables = append(schema.Tables, percolator.Table{Name: table})
		}
		env := percolatortest.New(t, schema)
		clients := []*percolator.Client{env.Client, env.NewClient()}
		for _, c := range clients {
			env.FaultsOf(c).Handle(faults)
		}
		return &harness{t: t, env: env, clients: clients}, nil
	}, nil, nil)
}

// tables are those of the kinds of collections.
var tables = map[drivertest.CollectionKind]string{
	drivertest.SingleKey: "single-key", drivertest.TwoKey: "two-key", drivertest.AltRev: "other-revision-field", drivertest.NoRev: "no-revision",
}

type harness struct {
	t   *testing.T
	env *percolatortest.Env

	clients []*percolator.Client
	turns   atomic.Int64
}

func (h *harness) client() *percolator.Client {
	return h.clients[int(h.turns.Add(1))%len(h.clients)]
}

func (h *harness) MakeCollection(_ context.Context, kind drivertest.CollectionKind) (driver.Collection, error) {
	c := &collection{t: h.t, client: h.client, table: tables[kind], revisionField: docstore.DefaultRevisionField}
	switch kind {
	case drivertest.TwoKey:
		c.keyOf = drivertest.HighScoreKey
	case drivertest.AltRev:
		c.revisionField = drivertest.AlternateRevisionField
	}
	return c, nil
}

// Close audits what the test has left in the tables.
func (h *harness) Close() {
	for _, c := range h.clients {
		if err := c.Flush(h.t.Context()); err != nil {
			h.t.Error(err)
		}
	}
	h.env.Audit(h.t)
}

func (*harness) BeforeDoTypes() []any         { return nil }
func (*harness) BeforeQueryTypes() []any      { return nil }
func (*harness) RevisionsEqual(a, b any) bool { return a == b }
func (*harness) SupportsAtomicWrites() bool   { return true }
