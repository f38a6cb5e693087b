package percolator

import "testing"

// ReadsWaiting is how many reads wait for one in flight to end, so that they travel together.
func (c *Client) ReadsWaiting() (n int) {
	c.batch.mu.Lock()
	defer c.batch.mu.Unlock()
	for _, q := range c.batch.queues {
		n += len(q.waiting)
	}
	return n
}

// StampsAhead is how many start timestamps are at hand for blind transactions; asking: more are being asked for.
func (c *Client) StampsAhead() (n int, asking bool) {
	c.ahead.mu.Lock()
	defer c.ahead.mu.Unlock()
	return len(c.ahead.stamps), c.ahead.asking > 0
}

// ReadWholeRowsAfter begins the first trial of a table that has not been read yet after so many reads of it, without probes.
func (c *Client) ReadWholeRowsAfter(reads int64) { c.habits.first, c.habits.probe = reads, 0 }

// ReadsWhole reports whether the next read of a table asks for whole rows.
func (c *Client) ReadsWhole(table string) bool {
	t := c.habits.of(table)
	return t.reads.Load() >= t.after.Load()
}

// WaitingForOwn is how many readers wait for a commit of this client.
func (c *Client) WaitingForOwn() int64 { return c.own.waiting.Load() }

// OwnCommits is how many commits of this client are known to its readers.
func (c *Client) OwnCommits() int {
	c.own.mu.Lock()
	defer c.own.mu.Unlock()
	return len(c.own.known)
}

// LocksOf counts the locks that stand in a row.
func (c *Client) LocksOf(t testing.TB, table, row string) (n int) {
	t.Helper()
	rv, err := c.readVersions(t.Context(), table, row, snapshotFilter(nil, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range rv {
		n += len(v.locks)
	}
	return n
}

// AllReadWhole reports whether every read of a table asks for whole rows: the probes are over.
func (c *Client) AllReadWhole(table string) bool {
	t := c.habits.of(table)
	return t.reads.Load() >= t.after.Load() && t.narrow.Load() >= t.probe
}
