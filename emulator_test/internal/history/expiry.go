package history

import (
	"time"

	"github.com/gopercolator/percolator/tso"
)

// expiry is the first snapshot that does not see what a commit leaves in a cell; 0: all see it
// (I27).
func (c *Checker) expiry(e effect, commit tso.Timestamp) tso.Timestamp {
	if ttl := c.ttl(e.cell); ttl != 0 && e.value != absent {
		return commit.Add(ttl)
	}
	return 0
}

func (c *Checker) ttl(cell cellID) time.Duration {
	if c.rules.TTL == nil {
		return 0
	}
	return c.rules.TTL(c.h.names[cell])
}

// seen is what a snapshot at ts sees of a version that is the newest below it.
func (v version) seen(ts tso.Timestamp) valueID {
	if v.expires != 0 && ts >= v.expires {
		return absent
	}
	return v.value
}

// mayHaveExpired tells whether a snapshot may not see what t wrote because it had expired by then.
func (c *Checker) mayHaveExpired(t *Txn, cell cellID, snapshot tso.Timestamp) bool {
	ttl := c.ttl(cell)
	return ttl != 0 && snapshot >= t.start.Add(ttl)
}

// checkExpired: where observers hear of what expires, it has been deleted in the end (I30).
func (c *Checker) checkExpired(o Observer, id cellID, v version) {
	if o.Expired && v.value != absent {
		c.report.add(anomalyUnexpired, "%s: what %s wrote is not deleted, though it expired at %d", c.h.names[id], c.txn(v.txn), v.expires)
	}
}
