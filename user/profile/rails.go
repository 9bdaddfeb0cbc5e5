package profile

import (
	"strings"
	"sync"
)

// Braze takes a time zone by the name that Ruby on Rails has for it as well: its
// documentation of the attributes object names "Eastern Time (US & Canada)". What is
// kept is the zone of the IANA database, since mail and rules need its clock.

// railsCities are zones whose name there is the last part of the IANA name.
const railsCities = `
America/Asuncion America/Bogota America/Caracas America/Chihuahua America/La_Paz America/Lima America/Mazatlan America/Mexico_City
America/Monterrey America/Montevideo America/Puerto_Rico America/Santiago America/Tijuana America/Argentina/Buenos_Aires
Atlantic/Azores Africa/Cairo Africa/Casablanca Africa/Harare Africa/Monrovia Africa/Nairobi
Europe/Amsterdam Europe/Athens Europe/Belgrade Europe/Berlin Europe/Bratislava Europe/Brussels Europe/Bucharest Europe/Budapest
Europe/Copenhagen Europe/Dublin Europe/Helsinki Europe/Istanbul Europe/Kaliningrad Europe/Lisbon Europe/Ljubljana Europe/London
Europe/Madrid Europe/Minsk Europe/Moscow Europe/Paris Europe/Prague Europe/Riga Europe/Rome Europe/Samara Europe/Sarajevo Europe/Skopje
Europe/Sofia Europe/Stockholm Europe/Tallinn Europe/Vienna Europe/Vilnius Europe/Volgograd Europe/Warsaw Europe/Zagreb Europe/Zurich
Asia/Almaty Asia/Baghdad Asia/Baku Asia/Bangkok Asia/Chongqing Asia/Dhaka Asia/Hong_Kong Asia/Irkutsk Asia/Jakarta Asia/Jerusalem
Asia/Kabul Asia/Kamchatka Asia/Karachi Asia/Kathmandu Asia/Kolkata Asia/Krasnoyarsk Asia/Kuala_Lumpur Asia/Kuwait Asia/Magadan
Asia/Muscat Asia/Novosibirsk Asia/Rangoon Asia/Riyadh Asia/Seoul Asia/Singapore Asia/Srednekolymsk Asia/Taipei Asia/Tashkent
Asia/Tbilisi Asia/Tehran Asia/Tokyo Asia/Ulaanbaatar Asia/Urumqi Asia/Vladivostok Asia/Yakutsk Asia/Yerevan
Australia/Adelaide Australia/Brisbane Australia/Canberra Australia/Darwin Australia/Hobart Australia/Melbourne Australia/Perth
Australia/Sydney Pacific/Auckland Pacific/Fiji Pacific/Guam Pacific/Port_Moresby`

// railsNames are the other names.
const railsNames = `Etc/GMT+12=International Date Line West;Pacific/Midway=Midway Island;Pacific/Pago_Pago=American Samoa;` +
	`Pacific/Honolulu=Hawaii;America/Juneau=Alaska;America/Los_Angeles=Pacific Time (US & Canada);` +
	`America/Denver=Mountain Time (US & Canada);America/Phoenix=Arizona;America/Chicago=Central Time (US & Canada);` +
	`America/Regina=Saskatchewan;America/Mexico_City=Guadalajara;America/Guatemala=Central America;` +
	`America/New_York=Eastern Time (US & Canada);America/Indiana/Indianapolis=Indiana (East);America/Lima=Quito;` +
	`America/Halifax=Atlantic Time (Canada);America/St_Johns=Newfoundland;America/Sao_Paulo=Brasilia;America/Guyana=Georgetown;` +
	`America/Godthab=Greenland;Atlantic/South_Georgia=Mid-Atlantic;Atlantic/Cape_Verde=Cape Verde Is.;Europe/London=Edinburgh;` +
	`Europe/Zurich=Bern;Africa/Algiers=West Central Africa;Europe/Kiev=Kyiv;Africa/Johannesburg=Pretoria;` +
	`Europe/Moscow=St. Petersburg;Asia/Muscat=Abu Dhabi;Asia/Yekaterinburg=Ekaterinburg;Asia/Karachi=Islamabad;` +
	`Asia/Kolkata=Chennai;Asia/Kolkata=Mumbai;Asia/Kolkata=New Delhi;Asia/Colombo=Sri Jayawardenepura;Asia/Almaty=Astana;` +
	`Asia/Bangkok=Hanoi;Asia/Shanghai=Beijing;Asia/Tokyo=Osaka;Asia/Tokyo=Sapporo;Pacific/Guadalcanal=Solomon Is.;` +
	`Pacific/Noumea=New Caledonia;Pacific/Majuro=Marshall Is.;Pacific/Auckland=Wellington;Pacific/Tongatapu=Nuku'alofa;` +
	`Pacific/Fakaofo=Tokelau Is.;Pacific/Chatham=Chatham Is.;Pacific/Apia=Samoa`

// railsZones are the zones by their names there.
var railsZones = sync.OnceValue(func() map[string]string {
	zones := make(map[string]string)
	for _, zone := range strings.Fields(railsCities) {
		zones[strings.ReplaceAll(zone[strings.LastIndexByte(zone, '/')+1:], "_", " ")] = zone
	}
	for entry := range strings.SplitSeq(railsNames, ";") {
		zone, name, _ := strings.Cut(entry, "=")
		zones[name] = zone
	}
	return zones
})
