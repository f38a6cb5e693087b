package percolator

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

// ReadWholeRowsAfter begins the first trial of a table that has not been read yet after so many reads of it.
func (c *Client) ReadWholeRowsAfter(reads int64) { c.habits.first = reads }

// ReadsWhole reports whether the next read of a table asks for whole rows.
func (c *Client) ReadsWhole(table string) bool {
	t := c.habits.of(table)
	return t.reads.Load() >= t.after.Load()
}
