package history

import (
	"cmp"
	"slices"
)

// checkUnique: no value belongs to two rows at once.
func (c *Checker) checkUnique() {
	for _, col := range c.rules.Unique {
		type change struct {
			version
			cell cellID
		}
		var all []change
		for _, id := range c.tables[col.Table] {
			if c.h.names[id].Column == col.Name {
				for _, v := range c.versions[id] {
					all = append(all, change{v, id})
				}
			}
		}
		// Of one transaction's changes those that release a value come first.
		slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.commit, b.commit) })
		holder := map[valueID]change{}
		held := map[cellID]valueID{}
		for i := 0; i < len(all); {
			j := i
			for ; j < len(all) && all[j].commit == all[i].commit; j++ {
				if old := held[all[j].cell]; old != absent && holder[old].cell == all[j].cell {
					delete(holder, old)
				}
				delete(held, all[j].cell)
			}
			for ; i < j; i++ {
				ch := all[i]
				if ch.value == absent {
					continue
				}
				if other, taken := holder[ch.value]; taken && other.seen(ch.commit) != absent && c.fresh(other.version, ch.version) {
					c.report.add(anomalyUnique, "%s and %s hold one value since %s", c.h.names[other.cell], c.h.names[ch.cell], c.h.txns[ch.txn])
				}
				holder[ch.value], held[ch.cell] = ch, ch.value
			}
		}
	}
}
