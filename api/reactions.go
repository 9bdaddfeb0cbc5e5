package api

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
)

// Bounds of reading what mail got back: rows of an answer, and those that are read for
// it, one for each kind.
const (
	maxReactionRows = 20_000
	maxReactionRead = 200_000
)

// reactionParameters are the names that a query may have.
var reactionParameters = []string{"from", "to", "by", "tz", "campaign", "journey", "step", "variant", "link"}

// byDay adds hours up to days, beside the columns of the table.
const byDay = "day"

// reactionFilters are the parameters that choose mails, with how long their values may be.
var reactionFilters = map[store.ReactionColumn]int{
	store.ReactionCampaign: mail.MaxTagBytes, store.ReactionJourney: journey.MaxIDBytes, store.ReactionStep: journey.MaxIDBytes,
	store.ReactionVariant: journey.MaxIDBytes, store.ReactionLink: len("65535"),
}

// reactionRequest is a request for what mail got back, understood.
type reactionRequest struct {
	seriesRequest // its range and zone
	query         store.ReactionQuery
	by            []string
}

// reactionGroup is what a row of the answer is of. What is not told apart is left out.
type reactionGroup struct {
	Time     string  `json:"time,omitempty"`
	Campaign *string `json:"campaign,omitempty"`
	Journey  *string `json:"journey,omitempty"`
	Step     *string `json:"step,omitempty"`
	Variant  *string `json:"variant,omitempty"`
	Link     *int    `json:"link,omitempty"`
	Machine  *bool   `json:"machine,omitempty"`
}

// reactionShown is a row of the answer. Rates are against Delivered, but for BounceRate,
// which is against what was attempted, and ClickToOpenRate, against Opened.
type reactionShown struct {
	reactionGroup
	Sent            int64         `json:"sent"`
	Refused         int64         `json:"refused"`
	Delivered       int64         `json:"delivered"`
	Confirmed       int64         `json:"confirmed"`
	Bounced         bouncedShown  `json:"bounced"`
	Complained      int64         `json:"complained"`
	Unsubscribed    int64         `json:"unsubscribed"`
	BounceRate      *float64      `json:"bounce_rate"`
	ComplaintRate   *float64      `json:"complaint_rate"`
	UnsubscribeRate *float64      `json:"unsubscribe_rate"`
	Raw             answeredShown `json:"raw"`
	Human           answeredShown `json:"human"`
}

// bouncedShown is what came back, by class.
type bouncedShown struct {
	Hard  int64 `json:"hard"`
	Soft  int64 `json:"soft"`
	Block int64 `json:"block"`
	Other int64 `json:"other"`
}

// answeredShown is what was opened and clicked: mails, and how often.
type answeredShown struct {
	Opened          int64    `json:"opened"`
	Opens           int64    `json:"opens"`
	Clicked         int64    `json:"clicked"`
	Clicks          int64    `json:"clicks"`
	OpenRate        *float64 `json:"open_rate"`
	ClickRate       *float64 `json:"click_rate"`
	ClickToOpenRate *float64 `json:"click_to_open_rate"`
}

// reactionsAnswer is the body of the answer.
type reactionsAnswer struct {
	From      string           `json:"from"`
	To        string           `json:"to"`
	By        []string         `json:"by"`
	Reactions []*reactionShown `json:"reactions"`
}

// reactions is GET /v1/reactions.
func (q *request) reactions() (any, error) {
	wanted, err := readReactionRequest(q.Request, q.s.clock.Now())
	if err != nil {
		return nil, err
	}
	var found []store.ReactionRow
	err = q.readCounts("reactions", func(ctx context.Context) (err error) {
		found, err = q.Reactions.Reactions(ctx, wanted.query)
		return err
	})
	if err != nil {
		return nil, err
	}
	rows := wanted.rows(found)
	if len(found) == wanted.query.Limit || len(rows) > maxReactionRows {
		return nil, refusal(sluice.CodeInvalid, "more than %d rows; ask for a shorter range, for one campaign or journey, or tell less apart (by)", maxReactionRows)
	}
	return reactionsAnswer{From: wanted.from.Format(time.RFC3339), To: wanted.to.Format(time.RFC3339), By: wanted.by, Reactions: rows}, nil
}

// readReactionRequest reads the query of a URL.
func readReactionRequest(r *http.Request, now time.Time) (*reactionRequest, error) {
	values, err := readQuery(r, reactionParameters, "campaign", "journey", "step", "variant")
	if err != nil {
		return nil, err
	}
	w := &reactionRequest{by: []string{}, query: store.ReactionQuery{Limit: maxReactionRead, By: make(map[store.ReactionColumn]bool), Only: make(map[store.ReactionColumn]string)}}
	for column, limit := range reactionFilters {
		value := values.Get(string(column))
		if len(value) > limit || !utf8.ValidString(value) {
			return nil, refusal(sluice.CodeInvalid, "%s has more than %d bytes, or is not UTF-8; nothing is called that", column, limit)
		}
		if values.Has(string(column)) {
			w.query.Only[column] = value
		}
	}
	if link, ok := w.query.Only[store.ReactionLink]; ok {
		if n, err := strconv.Atoi(link); err != nil || n < 0 || n > math.MaxUint16 {
			return nil, refusal(sluice.CodeInvalid, "link is %.32q, want a number from 0 to %d", link, math.MaxUint16)
		}
	}
	if err := w.readColumns(values.Get("by")); err != nil {
		return nil, err
	}
	w.days = !w.query.By[store.ReactionHour] || slices.Contains(w.by, byDay)
	if err := w.readZone(values.Values); err != nil {
		return nil, err
	}
	if err := w.readRange(values.Values, now); err != nil {
		return nil, err
	}
	if w.days && w.withinHours() {
		return nil, refusal(sluice.CodeInvalid, "the days of %s do not begin with an hour of UTC, by which mail is counted; ask for by=hour, or for days of another zone", w.zone)
	}
	w.query.FromMillis, w.query.ToMillis = w.from.UnixMilli(), w.to.UnixMilli()
	return w, nil
}

// readColumns reads what is told apart.
func (w *reactionRequest) readColumns(text string) error {
	if text == "" || text == "none" {
		return nil
	}
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		column := store.ReactionColumn(word)
		if word == byDay {
			column = store.ReactionHour
		}
		if !slices.Contains(store.ReactionColumns, column) {
			return refusal(sluice.CodeInvalid, "by has %.32q, want none, or any of hour, day, campaign, journey, step, variant, link, machine, separated by commas", word)
		}
		if w.query.By[column] {
			return refusal(sluice.CodeInvalid, "by has %s twice, or an hour beside a day", word)
		}
		w.query.By[column], w.by = true, append(w.by, word)
	}
	return nil
}

// rows makes the rows of the answer, in the order of what is told apart.
func (w *reactionRequest) rows(found []store.ReactionRow) []*reactionShown {
	type group struct {
		millis                           int64
		campaign, journey, step, variant string
		link                             int
		machine                          bool
	}
	rows, at := []*reactionShown{}, make(map[group]*reactionShown)
	for i := range found {
		f := &found[i]
		g := group{0, f.Campaign, f.Journey, f.Step, f.Variant, f.Link, w.query.By[store.ReactionMachine] && f.Machine}
		if w.query.By[store.ReactionHour] {
			g.millis = w.bucket(time.UnixMilli(f.HourMillis).In(w.zone)).UnixMilli()
		}
		row := at[g]
		if row == nil {
			row = &reactionShown{reactionGroup: w.group(f, g.millis)}
			at[g], rows = row, append(rows, row)
		}
		row.add(f)
	}
	for _, row := range rows {
		row.finish()
	}
	return rows
}

// group is what the rows of the table are told apart by.
func (w *reactionRequest) group(f *store.ReactionRow, millis int64) (g reactionGroup) {
	if w.query.By[store.ReactionHour] {
		g.Time = time.UnixMilli(millis).In(w.zone).Format(time.RFC3339)
	}
	for _, text := range []struct {
		column store.ReactionColumn
		to     **string
		from   *string
	}{
		{store.ReactionCampaign, &g.Campaign, &f.Campaign}, {store.ReactionJourney, &g.Journey, &f.Journey},
		{store.ReactionStep, &g.Step, &f.Step}, {store.ReactionVariant, &g.Variant, &f.Variant},
	} {
		if w.query.By[text.column] {
			*text.to = text.from
		}
	}
	if w.query.By[store.ReactionLink] {
		g.Link = &f.Link
	}
	if w.query.By[store.ReactionMachine] {
		g.Machine = &f.Machine
	}
	return g
}

// add adds a row of the table.
func (r *reactionShown) add(f *store.ReactionRow) {
	plain := map[mail.ReactionKind]*int64{
		mail.ReactionSent: &r.Sent, mail.ReactionRefused: &r.Refused, mail.ReactionDelivered: &r.Confirmed,
		mail.ReactionComplained: &r.Complained, mail.ReactionUnsubscribed: &r.Unsubscribed,
		mail.ReactionBouncedHard: &r.Bounced.Hard, mail.ReactionBouncedSoft: &r.Bounced.Soft, mail.ReactionBouncedBlock: &r.Bounced.Block, mail.ReactionBouncedOther: &r.Bounced.Other,
	}
	switch f.Kind {
	case mail.ReactionOpened:
		answered(f, &r.Raw.Opened, &r.Raw.Opens, &r.Human.Opened, &r.Human.Opens)
	case mail.ReactionClicked:
		answered(f, &r.Raw.Clicked, &r.Raw.Clicks, &r.Human.Clicked, &r.Human.Clicks)
	default:
		if n := plain[f.Kind]; n != nil { // else it is of a later version
			*n += f.Count
		}
	}
}

// answered adds opens or clicks: mails and how often, raw and of people.
func answered(f *store.ReactionRow, mails, often, humanMails, humanOften *int64) {
	*mails, *often, *humanMails = *mails+f.Firsts, *often+f.Count, *humanMails+f.HumanFirsts
	if !f.Machine {
		*humanOften += f.Count
	}
}

// finish computes what follows from the sums. What was refused at once is among the
// bounced and was never sent.
func (r *reactionShown) finish() {
	bounced := r.Bounced.Hard + r.Bounced.Soft + r.Bounced.Block + r.Bounced.Other
	r.Delivered = max(0, r.Sent-max(0, bounced-r.Refused))
	r.BounceRate, r.ComplaintRate, r.UnsubscribeRate = rate(bounced, r.Sent+r.Refused), rate(r.Complained, r.Delivered), rate(r.Unsubscribed, r.Delivered)
	for _, a := range []*answeredShown{&r.Raw, &r.Human} {
		a.OpenRate, a.ClickRate, a.ClickToOpenRate = rate(a.Opened, r.Delivered), rate(a.Clicked, r.Delivered), rate(a.Clicked, a.Opened)
	}
}

// rate is a part of a whole, in millionths; nil: there is no whole.
func rate(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	n := math.Round(float64(part)/float64(whole)*1e6) / 1e6
	return &n
}
