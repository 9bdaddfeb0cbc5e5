package template

import (
	"testing"
	"time"

	"sluice/mail"
	"sluice/user/profile"
)

type stoppedClock int64

func (c stoppedClock) Now() time.Time { return time.UnixMilli(int64(c)) }

// rendered renders a text with variables.
func rendered(t testing.TB, source, variables string) (string, error) {
	t.Helper()
	c, err := Compile(&mail.TemplateVersion{Subject: "s", Text: source, Class: mail.ClassMarketing})
	if err != nil {
		return "", err
	}
	m, err := c.Render(&Input{Variables: variables, Clock: stoppedClock(1_700_000_000_000)})
	return m.Text, err
}

// The examples of the reference's documentation (shopify.github.io/liquid), by
// its pages, and what they give.
var documented = []struct{ page, source, variables, want string }{
	{"introduction", `{{ page.title }}`, `{"page":{"title":"Introduction"}}`, "Introduction"},
	{"introduction", `{% if user %}Hello {{ user.name }}!{% endif %}`, `{"user":{"name":"Adam"}}`, "Hello Adam!"},
	{"introduction", `{{ "/my/fancy/url" | append: ".html" }}`, ``, "/my/fancy/url.html"},
	{"introduction", `{{ "adam!" | capitalize | prepend: "Hello " }}`, ``, "Hello Adam!"},
	{"operators", `{% if product.type == "Shirt" or product.type == "Shoes" %}This is a shirt or a pair of shoes.{% endif %}`, `{"product":{"type":"Shoes"}}`, "This is a shirt or a pair of shoes."},
	{"operators", `{% if product.title contains "Pack" %}This product's title contains the word Pack.{% endif %}`, `{"product":{"title":"Pack of 3"}}`, "This product's title contains the word Pack."},
	{"operators", `{% if true or false and false %}This evaluates to true, since the 'and' condition is checked first.{% endif %}`, ``, "This evaluates to true, since the 'and' condition is checked first."},
	{"operators", `{% if true and false and false or true %}yes{% else %}no{% endif %}`, ``, "no"},
	{"truthy", `{% assign name = "Tobi" %}{% if name %}This text will always appear.{% endif %}`, ``, "This text will always appear."},
	{"truthy", `{% if settings.fp_heading %}<h1>{{ settings.fp_heading }}</h1>{% endif %}`, `{"settings":{"fp_heading":""}}`, "<h1></h1>"},
	{"types", `The current user is {{ user.name }}`, `{"user":{}}`, "The current user is "},
	{"types", `{% unless pages == empty %}<h1>{{ pages.frontpage.title }}</h1>{% endunless %}`, `{"pages":{"frontpage":{"title":"T"}}}`, "<h1>T</h1>"},
	{"types", `{% for user in site.users %} {{ user }}{% endfor %}`, `{"site":{"users":["Tobi","Laura","Tetsuro","Adam"]}}`, " Tobi Laura Tetsuro Adam"},
	{"types", `{{ site.users[0] }}{{ site.users[1] }}{{ site.users[-1] }}`, `{"site":{"users":["Tobi","Laura","Adam"]}}`, "TobiLauraAdam"},
	{"whitespace", "{% assign my_variable = \"tomato\" %}\n{{ my_variable }}", ``, "\ntomato"},
	{"whitespace", "{%- assign my_variable = \"tomato\" -%}\n{{ my_variable }}", ``, "tomato"},
	{"whitespace", "{% assign username = \"John G. Chalmers-Smith\" -%}\n{%- if username and username.size > 10 -%}\n  Wow, {{ username -}} , you have a long name!\n{%- else -%}\n  Hello there!\n{%- endif %}\n", ``, "Wow, John G. Chalmers-Smith, you have a long name!\n"},

	{"comment", `Anything you put between {% comment %} and {% endcomment %} tags is {% comment %}{% if %}{% endcomment %}turned into a comment.`, ``, "Anything you put between  tags is turned into a comment."},
	{"inline comment", "{% # for i in (1..3) -%}\n  {% # {{ i }} %}x", ``, "x"},
	{"conditional", `{% if customer.name == "kevin" %}Hey Kevin!{% elsif customer.name == "anonymous" %}Hey Anonymous!{% else %}Hi Stranger!{% endif %}`, `{"customer":{"name":"anonymous"}}`, "Hey Anonymous!"},
	{"case", "{% assign handle = \"cake\" %}{% case handle %}{% when \"cake\" %}This is a cake{% when \"cookie\", \"biscuit\" %}This is a cookie{% else %}This is not a cake nor a cookie{% endcase %}", ``, "This is a cake"},
	{"case", `{% case h %} never {% when "cake" %}cake{% when "cookie" or "biscuit" %}cookie{% else %}neither{% endcase %}`, `{"h":"biscuit"}`, "cookie"},
	{"for", `{% for product in collection.products %}{{ product.title }} {% endfor %}`, `{"collection":{"products":[{"title":"hat"},{"title":"shirt"},{"title":"pants"}]}}`, "hat shirt pants "},
	{"for else", `{% for product in collection.products %}{{ product.title }}{% else %}The collection is empty.{% endfor %}`, `{"collection":{"products":[]}}`, "The collection is empty."},
	{"break", `{% for i in (1..5) %}{% if i == 4 %}{% break %}{% else %}{{ i }} {% endif %}{% endfor %}`, ``, "1 2 3 "},
	{"continue", `{% for i in (1..5) %}{% if i == 4 %}{% continue %}{% else %}{{ i }} {% endif %}{% endfor %}`, ``, "1 2 3 5 "},
	{"limit", `{% for item in array limit:2 %}{{ item }} {% endfor %}`, `{"array":[1,2,3,4,5,6]}`, "1 2 "},
	{"offset", `{% for item in array offset:2 %}{{ item }} {% endfor %}`, `{"array":[1,2,3,4,5,6]}`, "3 4 5 6 "},
	{"range", `{% for i in (3..5) %}{{ i }} {% endfor %}{% assign num = 4 %}{% assign range = (1..num) %}{% for i in range %}{{ i }} {% endfor %}`, ``, "3 4 5 1 2 3 4 "},
	{"reversed", `{% for item in array reversed %}{{ item }} {% endfor %}`, `{"array":[1,2,3,4,5,6]}`, "6 5 4 3 2 1 "},
	{"reversed", `{% for item in array reversed limit: 2 offset: 1 %}{{ item }} {% endfor %}`, `{"array":[1,2,3,4]}`, "3 2 "},
	{"forloop", `{% for p in ps %}{{ forloop.index }}{{ forloop.index0 }}{{ forloop.rindex }}{{ forloop.rindex0 }}{{ forloop.length }}{% unless forloop.last %}, {% endunless %}{% if forloop.first %}!{% endif %}{% endfor %}`, `{"ps":["a","b","c"]}`, "10323, !21213, 32103"},
	{"parentloop", `{% for i in (1..2) %}{% for j in (1..2) %}{{ forloop.parentloop.index }}.{{ forloop.index }} {% endfor %}{% endfor %}`, ``, "1.1 1.2 2.1 2.2 "},
	{"for", `{% for pair in hash %}{{ pair[0] }}={{ pair[1] }};{% endfor %}`, `{"hash":{"b":1,"a":[2]}}`, "b=1;a=2;"},
	{"cycle", `{% cycle "one", "two", "three" %}{% cycle "one", "two", "three" %}{% cycle "one", "two", "three" %}{% cycle "one", "two", "three" %}`, ``, "onetwothreeone"},
	{"cycle", `{% cycle "first": "one", "two" %}{% cycle "second": "one", "two" %}{% cycle "second": "one", "two" %}{% cycle "first": "one", "two" %}`, ``, "oneonetwotwo"},
	{"raw", `{% raw %}In Handlebars, {{ this }} will be HTML-escaped, but {{{ that }}} will not.{% endraw %}`, ``, "In Handlebars, {{ this }} will be HTML-escaped, but {{{ that }}} will not."},
	{"liquid", "{% liquid\n  assign x = 'hi'\n\n  # a comment\n  if x == 'hi'\n    echo x | upcase\n  endif\n%}.", ``, "HI."},
	{"assign", `{% assign foo = "bar" %}{{ foo }}`, ``, "bar"},
	{"capture", `{% capture my_variable %}I am being captured.{% endcapture %}{{ my_variable }}`, ``, "I am being captured."},
	{"capture", `{% assign favorite_food = "pizza" %}{% assign age = 35 %}{% capture about_me %}I am {{ age }} and my favorite food is {{ favorite_food }}.{% endcapture %}{{ about_me }}`, ``, "I am 35 and my favorite food is pizza."},
	{"increment", `{% increment my_counter %}{% increment my_counter %}{% increment my_counter %}`, ``, "012"},
	{"increment", `{% assign var = 10 %}{% increment var %}{% increment var %}{% increment var %}{{ var }}`, ``, "01210"},
	{"decrement", `{% decrement variable %}{% decrement variable %}{% decrement variable %}`, ``, "-1-2-3"},

	{"abs", `{{ -17 | abs }} {{ 4 | abs }} {{ "-19.86" | abs }}`, ``, "17 4 19.86"},
	{"at_least", `{{ 4 | at_least: 5 }} {{ 4 | at_least: 3 }}`, ``, "5 4"},
	{"at_most", `{{ 4 | at_most: 5 }} {{ 4 | at_most: 3 }}`, ``, "4 3"},
	{"capitalize", `{{ "title" | capitalize }} {{ "my GREAT title" | capitalize }}`, ``, "Title My great title"},
	{"ceil", `{{ 1.2 | ceil }} {{ 2.0 | ceil }} {{ 183.357 | ceil }} {{ "3.5" | ceil }}`, ``, "2 2 184 4"},
	{"compact", `{% assign c = pages | map: "category" | compact %}{% for x in c %}- {{ x }} {% endfor %}`, `{"pages":[{"category":"business"},{},{"category":"sports"}]}`, "- business - sports "},
	{"concat", `{% assign fruits = "apples, oranges, peaches" | split: ", " %}{% assign vegetables = "carrots, turnips, potatoes" | split: ", " %}{% assign everything = fruits | concat: vegetables %}{% for item in everything %}- {{ item }} {% endfor %}`, ``, "- apples - oranges - peaches - carrots - turnips - potatoes "},
	{"date", `{{ at | date: "%a, %b %d, %y" }} {{ at | date: "%Y" }}`, `{"at":"2015-07-17T10:00:00Z"}`, "Fri, Jul 17, 15 2015"},
	{"date", `{{ "March 14, 2016" | date: "%b %d, %y" }}`, ``, "Mar 14, 16"},
	{"date", `{{ at | date: "%d.%m.%Y" }} {{ "1958-03-30T01:00:00+02:00" | date: "%d" }}`, `{"at":"1958-03-30"}`, "30.03.1958 30"},
	{"date", `{{ "now" | date: "%Y-%m-%d %H:%M" }}`, ``, "2023-11-14 22:13"},
	{"default", `{{ product_price | default: 2.99 }}`, ``, "2.99"},
	{"default", `{{ product_price | default: 2.99 }}`, `{"product_price":4.99}`, "4.99"},
	{"default", `{{ product_price | default: 2.99 }}`, `{"product_price":""}`, "2.99"},
	{"default", `{{ display_price | default: true, allow_false: true }}`, `{"display_price":false}`, "false"},
	{"divided_by", `{{ 16 | divided_by: 4 }} {{ 5 | divided_by: 3 }} {{ 20 | divided_by: 7 }} {{ 20 | divided_by: 7.0 }}`, ``, "4 1 2 2.857142857142857"},
	{"downcase", `{{ "Parker Moore" | downcase }}`, ``, "parker moore"},
	{"escape", `{{ "Have you read 'James & the Giant Peach'?" | escape }}`, ``, "Have you read &#39;James &amp; the Giant Peach&#39;?"},
	{"escape_once", `{{ "1 < 2 & 3" | escape_once }} {{ "1 &lt; 2 &amp; 3" | escape_once }}`, ``, "1 &lt; 2 &amp; 3 1 &lt; 2 &amp; 3"},
	{"first", `{{ "Ground control to Major Tom." | split: " " | first }}`, ``, "Ground"},
	{"floor", `{{ 1.2 | floor }} {{ 2.0 | floor }} {{ 183.357 | floor }} {{ "3.5" | floor }}`, ``, "1 2 183 3"},
	{"join", `{% assign beatles = "John, Paul, George, Ringo" | split: ", " %}{{ beatles | join: " and " }}`, ``, "John and Paul and George and Ringo"},
	{"last", `{{ "Ground control to Major Tom." | split: " " | last }}`, ``, "Tom."},
	{"lstrip", `{{ "          So much room for activities          " | lstrip }}!`, ``, "So much room for activities          !"},
	{"map", `{% assign all = pages | map: "category" %}{% for item in all %}- {{ item }} {% endfor %}`, `{"pages":[{"category":"a"},{"category":"b"}]}`, "- a - b "},
	{"minus", `{{ 4 | minus: 2 }} {{ 16 | minus: 4 }} {{ 183.357 | minus: 12 }}`, ``, "2 12 171.357"},
	{"modulo", `{{ 3 | modulo: 2 }} {{ 24 | modulo: 7 }} {{ 183.357 | modulo: 12 }}`, ``, "1 3 3.357"},
	{"newline_to_br", "{% capture s %}\nHello\nthere\n{% endcapture %}{{ s | newline_to_br }}", ``, "<br />\nHello<br />\nthere<br />\n"},
	{"plus", `{{ 4 | plus: 2 }} {{ 16 | plus: 4 }} {{ 183.357 | plus: 12 }}`, ``, "6 20 195.357"},
	{"prepend", `{{ "apples, oranges, and bananas" | prepend: "Some fruit: " }}`, ``, "Some fruit: apples, oranges, and bananas"},
	{"remove", `{{ "I strained to see the train through the rain" | remove: "rain" }}`, ``, "I sted to see the t through the "},
	{"remove_first", `{{ "I strained to see the train through the rain" | remove_first: "rain" }}`, ``, "I sted to see the train through the rain"},
	{"remove_last", `{{ "I strained to see the train through the rain" | remove_last: "rain" }}`, ``, "I strained to see the train through the "},
	{"replace", `{{ "Take my protein pills and put my helmet on" | replace: "my", "your" }}`, ``, "Take your protein pills and put your helmet on"},
	{"replace_first", `{{ "Take my protein pills and put my helmet on" | replace_first: "my", "your" }}`, ``, "Take your protein pills and put my helmet on"},
	{"replace_last", `{{ "Take my protein pills and put my helmet on" | replace_last: "my", "your" }}`, ``, "Take my protein pills and put your helmet on"},
	{"reverse", `{% assign a = "apples, oranges, peaches, plums" | split: ", " %}{{ a | reverse | join: ", " }} {{ "Ground" | split: "" | reverse | join: "" }}`, ``, "plums, peaches, oranges, apples dnuorG"},
	{"round", `{{ 1.2 | round }} {{ 2.7 | round }} {{ 183.357 | round: 2 }}`, ``, "1 3 183.36"},
	{"rstrip", `{{ "  So much room  " | rstrip }}!`, ``, "  So much room!"},
	{"size", `{{ "Ground control to Major Tom." | size }} {{ "apples, oranges, peaches, plums" | split: ", " | size }}`, ``, "28 4"},
	{"slice", `{{ "Liquid" | slice: 0 }} {{ "Liquid" | slice: 2 }} {{ "Liquid" | slice: 2, 5 }} {{ "Liquid" | slice: -3, 2 }}`, ``, "L q quid ui"},
	{"slice", `{% assign b = "John, Paul, George, Ringo" | split: ", " %}{{ b | slice: 1, 2 | join: "" }}`, ``, "PaulGeorge"},
	{"sort", `{{ "zebra, octopus, giraffe, Sally Snake" | split: ", " | sort | join: ", " }}`, ``, "Sally Snake, giraffe, octopus, zebra"},
	{"sort", `{% assign p = products | sort: "price" %}{% for x in p %}{{ x.n }}{% endfor %}`, `{"products":[{"n":"a","price":3},{"n":"b","price":1},{"n":"c"},{"n":"d","price":1.5}]}`, "bdac"},
	{"sort_natural", `{{ "zebra, octopus, giraffe, Sally Snake" | split: ", " | sort_natural | join: ", " }}`, ``, "giraffe, octopus, Sally Snake, zebra"},
	{"split", `{% assign b = "John, Paul, George, Ringo" | split: ", " %}{% for m in b %}{{ m }}.{% endfor %}`, ``, "John.Paul.George.Ringo."},
	{"strip", `{{ "   So much room   " | strip }}!`, ``, "So much room!"},
	{"strip_html", `{{ "Have <em>you</em> read <strong>Ulysses</strong>?" | strip_html }}`, ``, "Have you read Ulysses?"},
	{"strip_newlines", "{% capture s %}\nHello\nthere\n{% endcapture %}{{ s | strip_newlines }}", ``, "Hellothere"},
	{"sum", `{{ c.ratings | sum }} {{ c.products | sum: "quantity" }}`, `{"c":{"ratings":[10,1.5,"2"],"products":[{"quantity":2},{"quantity":5}]}}`, "13.5 7"},
	{"times", `{{ 3 | times: 2 }} {{ 24 | times: 7 }} {{ 183.357 | times: 12 }}`, ``, "6 168 2200.284"},
	{"truncate", `{{ "Ground control to Major Tom." | truncate: 20 }}|{{ "Ground control to Major Tom." | truncate: 25, ", and so on" }}|{{ "Ground control to Major Tom." | truncate: 20, "" }}`, ``, "Ground control to...|Ground control, and so on|Ground control to Ma"},
	{"truncatewords", `{{ "Ground control to Major Tom." | truncatewords: 3 }}|{{ "Ground control to Major Tom." | truncatewords: 3, "--" }}|{{ "Ground control to Major Tom." | truncatewords: 3, "" }}`, ``, "Ground control to...|Ground control to--|Ground control to"},
	{"uniq", `{{ "ants, bugs, bees, bugs, ants" | split: ", " | uniq | join: ", " }}`, ``, "ants, bugs, bees"},
	{"upcase", `{{ "Parker Moore" | upcase }}`, ``, "PARKER MOORE"},
	{"url_decode", `{{ "%27Stop%21%27+said+Fred" | url_decode }}`, ``, "'Stop!' said Fred"},
	{"url_encode", `{{ "john@liquid.com" | url_encode }} {{ "Tetsuro Takara" | url_encode }}`, ``, "john%40liquid.com Tetsuro+Takara"},
	{"where", `{% assign k = products | where: "type", "kitchen" %}{% for p in k %}- {{ p.title }} {% endfor %}`, `{"products":[{"title":"Vacuum","type":"electronics"},{"title":"Spatula","type":"kitchen"},{"title":"Garlic press","type":"kitchen"}]}`, "- Spatula - Garlic press "},
	{"where", `{% assign a = products | where: "available" %}{% for p in a %}- {{ p.title }} {% endfor %}`, `{"products":[{"title":"Mug","available":true},{"title":"Jug"},{"title":"Shirt","available":true}]}`, "- Mug - Shirt "},
}

func TestDocumentedExamples(t *testing.T) {
	for _, c := range documented {
		got, err := rendered(t, c.source, c.variables)
		if err != nil || got != c.want {
			t.Errorf("%s: %s\ngot  %q, %v\nwant %q", c.page, c.source, got, err, c.want)
		}
	}
}

// Names of Braze's, and what is not in the reference's examples.
func TestNames(t *testing.T) {
	p, err := profile.Parse(`{"external_id":"u-7","fields":{"email":"a@example.com","first_name":"Ann","home_city":"Graz","time_zone":"Europe/Vienna"},"custom":{"big":12345678901234567890,"my attr":7,"plan":"gold","price":19.90,"tags":["a","b"]}}`)
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{
		`{{${first_name}}}`:                               "Ann",
		`{{ ${first_name} | default: 'you' | upcase }}`:   "ANN",
		`{{${last_name} | default: 'you'}}`:               "you",
		`{{${email_address}}} {{${city}}} {{${user_id}}}`: "a@example.com Graz u-7",
		`{{custom_attribute.${plan}}}`:                    "gold",
		`{{custom_attribute.${my attr}}}`:                 "7",
		`{{custom_attribute.${big}}}`:                     "12345678901234567890",
		`{{custom_attribute.${price} | money}}`:           "19.90",
		`{{custom_attribute.${tags}[1]}}`:                 "b",
		`{% if {{${first_name}}} == "Ann" and {{custom_attribute.${plan}}} == "gold" %}yes{% endif %}`:                                "yes",
		`{% assign x = {{custom_attribute.${plan}}} | upcase %}{% for t in {{custom_attribute.${tags}}} %}{{ t }}{% endfor %}{{ x }}`: "abGOLD",
		`{{ layout }}{{ include }}.`:                      ".",
		`{{ user.first_name }} {{ user.custom.plan }}`:    "Ann gold",
		`{{api_trigger_properties.${order}}} {{ order }}`: "9 9",
		`{% if ${first_name} == "Ann" %}yes{% endif %}`:   "yes",
		`{% if custom_attribute.${plan} != blank %}y{% endif %}{% if custom_attribute.${no} == blank %}n{% endif %}`: "yn",
		`{{ "2026-01-31T23:30:00Z" | time_zone: ${time_zone} | date: "%e. %B %Y, %k:%M %Z" }}`:                       " 1. February 2026,  0:30 CET",
		`{{ 1234567.891 | money: ".", "," }} {{ -1234 | number_with_delimiter }} {{ 2.5 | fixed: 0 }}`:               "1.234.567,89 -1,234 3",
		`{{ "a b&c" | url_param_escape }} {{ "ä" | base64_encode }} {{ "x" | md5 }}`:                                 "a%20b%26c w6Q= 9dd4e461268c8034f5c8564e155c67a6",
		`{{ tags | json }}{{ none | json }}`: `["\u003c/x\u003e",{"a":1.5}]null`,
	} {
		c, err := Compile(&mail.TemplateVersion{Subject: "s", Text: source, Class: mail.ClassMarketing})
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		m, err := c.Render(&Input{Variables: `{"order":9,"tags":["</x>",{"a":1.5}]}`, Profile: p, Clock: stoppedClock(0)})
		if err != nil || m.Text != want {
			t.Errorf("%s: got %q, %v, want %q", source, m.Text, err, want)
		}
	}
}
