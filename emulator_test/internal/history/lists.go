package history

import "strings"

// checkLists: a list that is appended to tells the order of its versions by itself. Each version
// must begin with the one before it, and no element comes twice. A list may be deleted, once.
func (c *Checker) checkLists() {
	if c.rules.List == nil {
		return
	}
	for cell, vs := range c.versions {
		if len(vs) == 0 || !c.rules.List(c.h.names[cell]) {
			continue
		}
		before := ""
		for i, v := range vs {
			list := c.h.texts[v.value]
			if v.value == absent && i == len(vs)-1 {
				break
			}
			if !strings.HasPrefix(list, before) && c.fresh(v, vs[max(i-1, 0)]) {
				c.report.add(anomalyListOrder, "%s: %s does not continue the list of %s", c.h.names[cell], c.txn(v.txn), c.txn(vs[max(i-1, 0)].txn))
			}
			before = list
		}
		if !c.fresh(vs[len(vs)-1]) {
			continue
		}
		seen := map[string]bool{}
		for e := range strings.FieldsSeq(before) {
			if seen[e] {
				c.report.add(anomalyListOrder, "%s: an element comes twice since %s", c.h.names[cell], c.txn(vs[len(vs)-1].txn))
				break
			}
			seen[e] = true
		}
	}
}
