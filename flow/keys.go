package flow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Every key that Sluice uses in Redis is named here, with its type. A key of
// partition p carries the tag of p, so that all keys of a step share a slot of
// a Redis Cluster. A key beside a foreign list carries that list's tag.

const prefix = "sluice:"

// slotsTotal is the number of hash slots of a Redis Cluster.
const slotsTotal = 16384

// Partition names one of the P slices of all users.
type Partition struct {
	Number int
	tag    string
}

// Partitions returns the P partitions. Their tags are chosen so that their
// slots are evenly spaced. A cluster that gives each node a run of slots then
// gives each node its share of the partitions, whatever the number of nodes.
func Partitions(count int) []Partition {
	if known, ok := partitionsOf.Load(count); ok {
		return slices.Clone(known.([]Partition))
	}
	all := make([]Partition, count)
	for n := range all {
		want := (2*n + 1) * slotsTotal / (2 * count)
		all[n] = Partition{Number: n, tag: "p" + strconv.Itoa(n) + tagSuffix("p"+strconv.Itoa(n), want)}
	}
	partitionsOf.Store(count, slices.Clone(all))
	return all
}

// partitionsOf has what Partitions found, by the count: a program has one, and asks
// again and again.
var partitionsOf sync.Map

// tagSuffix finds the first suffix that gives the tag the wanted slot: some
// 16,000 tries of 30 ns, done once for each partition of a count.
func tagSuffix(tag string, slot int) string {
	for i := 0; ; i++ {
		suffix := "." + strconv.Itoa(i)
		if hashSlot(tag+suffix) == slot {
			return suffix
		}
	}
}

// logKey: stream, the batches of the partition.
func (p Partition) logKey() string { return prefix + "{" + p.tag + "}:log" }

// sourcesKey: hash, source -> "last seq|id it was written as"; the field
// tailField holds the id of the log's last entry.
func (p Partition) sourcesKey() string { return prefix + "{" + p.tag + "}:sources" }

// cursorsKey: hash, follower -> position, for followers with their effect in
// Redis.
func (p Partition) cursorsKey() string { return prefix + "{" + p.tag + "}:cursors" }

// holdKey: string that expires, the position from which on a backup keeps the
// log from being trimmed.
func (p Partition) holdKey() string { return prefix + "{" + p.tag + "}:hold" }

// replicatedKey: string, written before replicas are waited for; it says nothing.
func (p Partition) replicatedKey() string { return prefix + "{" + p.tag + "}:replicated" }

// leaseKey: hash {owner, number, token, before}: the process that runs a role
// for the partition, and the number of the holder before it.
func (p Partition) leaseKey(role string) string {
	return prefix + "{" + p.tag + "}:lease:" + role
}

// replayKey: string that lives a day, a replay that was done.
func (p Partition) replayKey(name string) string {
	return prefix + "{" + p.tag + "}:replayed:" + name
}

// entriesKey: hash, how many people have entered a journey that limits them, by limit and
// period, and how many of them each partition has let in (enter.lua).
func entriesKey(journey int64) string {
	return prefix + "{members}:entries:" + strconv.FormatInt(journey, 10)
}

// onceKey: string that expires, the print of a request that was written.
func (p Partition) onceKey(name string) string {
	return prefix + "{" + p.tag + "}:once:" + name
}

// takenKey: hash that expires, the names of what was written of a request.
func (p Partition) takenKey(request string) string {
	return prefix + "{" + p.tag + "}:taken:" + request
}

// laneKey: stream, the batches of sends that wait in a lane (LaneName), or in a
// sublane: a lane's name, '@' and a domain.
func (p Partition) laneKey(lane string) string { return prefix + "{" + p.tag + "}:lane:" + lane }

// laterKey: stream, the batches of sends that wait for a second of Unix time.
func (p Partition) laterKey(second int64) string {
	return prefix + "{" + p.tag + "}:later:" + strconv.FormatInt(second, 10)
}

// dueKey: sorted set, second -> second, of those that have a laterKey.
func (p Partition) dueKey() string { return prefix + "{" + p.tag + "}:due" }

// sublanesKey: set, the names of the sublanes.
func (p Partition) sublanesKey() string { return prefix + "{" + p.tag + "}:sublanes" }

// statesKey: hash, "LANE ENTRY" -> a letter for each send of the batch; sends
// of a missing field wait.
func (p Partition) statesKey() string { return prefix + "{" + p.tag + "}:states" }

// marksKey: hash, id of a send -> the process that has marked it, when, for
// what.
func (p Partition) marksKey() string { return prefix + "{" + p.tag + "}:marks" }

// cancelsKey: hash, id of a send -> when it was cancelled, in ms, with the marks of
// cancel.go.
func (p Partition) cancelsKey() string { return prefix + "{" + p.tag + "}:cancels" }

// doubtsKey: hash, id of a send in doubt -> the send, as an item.
func (p Partition) doubtsKey() string { return prefix + "{" + p.tag + "}:doubts" }

// givenKey: hash, id of a send of a process that was taken for dead -> its
// mark.
func (p Partition) givenKey() string { return prefix + "{" + p.tag + "}:given" }

// waitingKey: hash, lane or "later" -> how many sends are in it.
func (p Partition) waitingKey() string { return prefix + "{" + p.tag + "}:waiting" }

// owedKey: hash, account -> how many sends that are counted in it wait, "b " and
// account -> their bytes (mail.Send.Account).
func (p Partition) owedKey() string { return prefix + "{" + p.tag + "}:owed" }

// standingKey: hash {server, moved, compared, found}: the Redis on which the
// lanes are worked, and whether they were compared with the ledger since it
// changed.
func (p Partition) standingKey() string { return prefix + "{" + p.tag + "}:standing" }

// AlertsKey names a hash: the problems of each process, and what was told of them.
func (p Partition) AlertsKey() string { return prefix + "{" + p.tag + "}:alerts" }

// removedKey: list of "ID COUNT", how many entries of the log before that id had
// been removed by then.
func (p Partition) removedKey() string { return prefix + "{" + p.tag + "}:removed" }

// journeysKey: hash, number of a journey -> how many chunks of people it has
// records of; fields beside these say how far a journey's follower is.
func (p Partition) journeysKey() string { return prefix + "{" + p.tag + "}:journeys" }

// chunkKey: string, the records of a journey of one chunk of people as a list, or
// dividedMark: the blocks have them.
func (p Partition) chunkKey(journey, chunk int) string {
	return prefix + "{" + p.tag + "}:journey:" + strconv.Itoa(journey) + ":few:" + strconv.Itoa(chunk)
}

// blockKey: string, the records of a journey of one block of people.
func (p Partition) blockKey(journey int, block int64) string {
	return prefix + "{" + p.tag + "}:journey:" + strconv.Itoa(journey) + ":" + strconv.FormatInt(block, 10)
}

// gapsKey: hash, the log or list with a gap -> where, and since when; "accepted
// " and its name -> where, if an operator has accepted it.
func gapsKey() string { return prefix + "{members}:gaps" }

// membersKey: hash, process id -> its beat: a number that rises, its groups and its words
// (beatText).
func membersKey() string { return prefix + "{members}:beats" }

// namesKey: hash, hour since 1970 -> how many names of requests were remembered in
// it (OnceNames).
func namesKey() string { return prefix + "{members}:names" }

// identityKey: hash {id, settled}, the deployment that this Redis belongs to.
func identityKey() string { return prefix + "{members}:deployment" }

// sinceKey: hash, name of a way in which something is done -> since when (ms).
func sinceKey() string { return prefix + "{members}:since" }

// formsKey: hash {item, update, scripts}, the newest forms that may stand in this
// Redis (sluice.Forms).
func formsKey() string { return prefix + "{members}:forms" }

// paceKey: hash {tokens, at, share, slowed, day, used} that expires, the bucket
// of a route, or of a domain of it.
func paceKey(route, domain string) string { return prefix + "{route:" + route + "}:pace:" + domain }

// journeyPaceKey: the same, of the mails of a journey.
func journeyPaceKey(journey int64) string {
	return prefix + "{journey:" + strconv.FormatInt(journey, 10) + "}:pace"
}

// stopsKey: hash, what is stopped in all processes -> the operator that stopped
// it.
func stopsKey() string { return prefix + "{members}:stops" }

// stopsAtKey: string, "EPOCH REPLICATION-ID": of the Redis on which stopsKey is complete.
func stopsAtKey() string { return prefix + "{members}:stops_at" }

// feedbackKey: hash that expires, a selection of mail, a space and what became of it ->
// how often, in a stretch of time.
func feedbackKey(stretch int64) string {
	return prefix + "{members}:feedback:" + strconv.FormatInt(stretch, 10)
}

// tokensKey: hash that expires, a token that a provider made in an hour (since 1970) ->
// what it came with.
func tokensKey(hour int64) string {
	return prefix + "{members}:tokens:" + strconv.FormatInt(hour, 10)
}

// SenderDomainKey names a string that expires: what was found about a domain that mail
// is sent from. It is in the slot of SenderDomainsKey.
func SenderDomainKey(domain string) string { return prefix + "{members}:domain:" + domain }

// SenderDomainsKey names a sorted set: these domains by when they were looked at.
func SenderDomainsKey() string { return prefix + "{members}:domains" }

// onceKey: string, the first value given under a name; it expires.
func onceKey(name string) string { return prefix + "once:" + name }

// remembersOnce reports whether a key says for a while what was done under a name, so that
// a repeat does nothing: of a request, a link, or a dead letter of a partition that was
// replayed. tags are those of the partitions.
func remembersOnce(key string, tags map[string]bool) bool {
	if strings.HasPrefix(key, onceKey("")) {
		return true
	}
	p := Partition{tag: hashTag(key)}
	return tags[p.tag] &&
		(strings.HasPrefix(key, p.onceKey("")) || strings.HasPrefix(key, p.takenKey("")) || strings.HasPrefix(key, p.replayKey("")))
}

// listKeys are the keys beside a foreign list, all in the list's slot, or
// beside the set of the dirty keys of foreign hashes.
type listKeys struct {
	kind string // "list" or "hashes"
	list string // list or set: the foreign one itself
	base string
}

// newListKeys derives the tag from the list's key: what stands between its
// first pair of braces if there is any, else the whole key
// (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags).
func newListKeys(kind, list string) (listKeys, error) {
	tag := hashTag(list)
	if strings.ContainsAny(tag, "{}") || tag == "" {
		return listKeys{}, fmt.Errorf("name keys beside %s %q: a brace in its name keeps them out of its slot; rename it", kind, list)
	}
	return listKeys{kind: kind, list: list, base: prefix + "{" + tag + "}:" + kind + ":" + list}, nil
}

// stateKey: hash {last, first, base, ...}, see list.go; of hashes also {id}.
func (k listKeys) stateKey() string { return k.base + ":state" }

// leaseKey: hash {owner, number, token, before}.
func (k listKeys) leaseKey() string { return k.base + ":lease" }

// seenKey: set, the members of a foreign set that have been taken over.
func (k listKeys) seenKey() string { return k.base + ":seen" }

// replayKey: string that lives a day, a replay that was done.
func (k listKeys) replayKey(name string) string { return k.base + ":replayed:" + name }

// heldKey: list, the elements of held chunk n.
func (k listKeys) heldKey(n uint64) string {
	return k.base + ":held:" + strconv.FormatUint(n, 10)
}

// hashTag returns the part of a key that Redis Cluster hashes.
func hashTag(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			return key[open+1 : open+1+length]
		}
	}
	return key
}

// hashSlot is the slot of a key without braces: CRC16 (XMODEM) modulo 16384.
func hashSlot(tag string) int {
	var crc uint16
	for i := 0; i < len(tag); i++ {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slotsTotal
}
