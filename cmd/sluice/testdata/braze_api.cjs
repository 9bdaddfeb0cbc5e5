// Makes all calls of the npm client braze-api that Sluice answers.
const assert = require('node:assert/strict')
const { setTimeout: pause } = require('node:timers/promises')
const fetch = require('node-fetch')
const { Braze } = require('braze-api')

const patience = 240_000 // ms; bounds a wait for what happens soon, on a machine that is busy

// The client takes a 503 for the last word. It says that nothing was done, and to come again.
const once = fetch.default
fetch.default = async (...call) => {
  for (const end = Date.now() + patience; ; await pause(100)) {
    const answer = await once(...call)
    if (answer.status !== 503 || Date.now() > end) return answer
  }
}

async function main(url, key) {
  const braze = new Braze(url, key)
  const success = { message: 'success' }
  const alias = { alias_name: 'js', alias_label: 'cookie' }
  const time = '2026-11-20T10:00:00Z'

  assert.deepEqual(await braze.users.track({
    attributes: [{ external_id: 'js-1', plan: 'gold', email: 'js@example.com' }],
    events: [{ external_id: 'js-1', name: 'js', time, properties: { a: [1, { b: 2 }] } }],
    purchases: [{ external_id: 'js-1', product_id: 'sku', currency: 'EUR', price: 1.5, time }],
  }), { ...success, attributes_processed: 1, events_processed: 1, purchases_processed: 1 })
  const mixed = await braze.users.track({ attributes: [{ external_id: 'js-2' }, { plan: 'none' }] }, true)
  assert.equal(mixed.message, 'success')
  assert.deepEqual(mixed.errors.map((e) => [e.input_array, e.index]), [['attributes', 1]])
  await refused(braze.users.track({ events: [{}] }), 400, /^Valid data must be provided/)

  assert.deepEqual(await braze.users.alias.new({ user_aliases: [alias] }), { ...success, aliases_processed: 1 })
  assert.deepEqual(await braze.users.identify({ aliases_to_identify: [{ external_id: 'js-1', user_alias: alias }] }), { ...success, aliases_processed: 1 })
  await until(async () => (await braze.users.export.ids({ user_aliases: [alias], fields_to_export: ['external_id'] })).users[0]?.external_id === 'js-1')

  assert.deepEqual(await braze.users.merge({ merge_updates: [{ identifier_to_merge: { external_id: 'js-2' }, identifier_to_keep: { external_id: 'js-1' } }] }), success)
  await until(async () => (await braze.users.export.ids({ external_ids: ['js-2'] })).users[0]?.external_id === 'js-1')
  await refused(braze.users.merge({ merge_updates: [] }), 400, /must be an array of objects/)

  assert.deepEqual(await braze.subscription.status.set({ subscription_group_id: 'g-1', subscription_state: 'unsubscribed', external_id: ['js-1'], email: ['js@example.com'] }), success)
  assert.deepEqual(await braze.v2.subscription.status.set({ subscription_groups: [{ subscription_group_id: 'g-2', subscription_state: 'subscribed', external_ids: ['js-1'] }] }), success)
  await until(async () => {
    const answer = await braze.subscription.status.get({ subscription_group_id: 'g-2', external_id: ['js-1', 'none'] })
    return answer.status['js-1'] === 'Subscribed' && answer.status.none === 'unknown'
  })
  assert.deepEqual((await braze.subscription.status.get({ subscription_group_id: 'g-1', email: 'js@example.com' })).status, { 'js@example.com': 'Unsubscribed' })
  assert.deepEqual(await braze.subscription.user.status({ external_id: 'js-1', limit: 10, offset: 0 }), {
    ...success, total_count: 1, users: [{
      email: 'js@example.com', phone: null, external_id: 'js-1', subscription_groups: [
        { id: 'g-1', name: 'g-1', channel: 'email', status: 'Unsubscribed' },
        { id: 'g-2', name: 'g-2', channel: 'email', status: 'Subscribed' }],
    }],
  })

  await mail(braze, success)
  assert.deepEqual(await braze.email.blacklist({ email: 'js@example.com' }), success)
  assert.deepEqual(await braze.email.bounce.remove({ email: ['js@example.com', 'other@example.com'] }), success)
  assert.deepEqual(await braze.email.spam.remove({ email: 'js@example.com' }), success)
  await refused(braze.email.blacklist({ email: [] }), 400, /^'email' is required/)

  assert.deepEqual(await braze.users.delete({ external_ids: ['js-1'] }), { ...success, deleted: 1 })
  await until(async () => (await braze.users.export.ids({ external_ids: ['js-1'] })).invalid_user_ids?.[0] === 'js-1')
  await refused(new Braze(url, 'stranger').users.delete({ external_ids: ['js-1'] }), 401, /^Invalid API key: stranger$/)
}

// What sends mail. The client's types want the recipient in a list.
async function mail(braze, success) {
  const email = { app_id: 'shop', from: 'Shop <shop@example.com>', subject: 'Hello {{${first_name}}}', body: '<p>Hello</p>' }
  const sent = await braze.messages.send({ external_user_ids: ['js-1', 'none'], recipient_subscription_state: 'all', override_frequency_capping: true, messages: { email } })
  assert.match(sent.dispatch_id, /^[0-9a-f]{32}$/)
  assert.deepEqual(sent, { ...success, dispatch_id: sent.dispatch_id, errors: ['external_user_ids[1]: there is no such user'] })
  await refused(braze.messages.send({ external_user_ids: ['none'], messages: { email } }), 400, /^No Recipients$/)
  await refused(braze.messages.send({ external_user_ids: ['js-1'], messages: { sms: {} } }), 400, /^No message to send$/)

  // A year has more than 90 days; these are 30.
  const time = (days) => new Date(Date.now() + days * 86_400_000).toISOString()
  const later = await braze.messages.schedule.create({ external_user_ids: ['js-1'], override_messaging_limits: true, schedule: { time: time(30) }, messages: { email } })
  assert.deepEqual(later, { ...success, dispatch_id: later.schedule_id.replaceAll('-', ''), schedule_id: later.schedule_id })
  assert.deepEqual(await braze.messages.schedule.update({ schedule_id: later.schedule_id, schedule: { time: time(60).slice(0, 19), in_local_time: true }, messages: { email } }), success)
  const listed = (await braze.messages.scheduled_broadcasts({ end_time: time(90) })).scheduled_broadcasts
  assert.deepEqual(listed.map((b) => [b.id, b.type, b.schedule_type]), [[later.schedule_id, 'Campaign', 'local_time_zones']])
  assert.deepEqual(await braze.messages.schedule.delete({ schedule_id: later.schedule_id }), success)
  assert.deepEqual((await braze.messages.scheduled_broadcasts({ end_time: time(90) })).scheduled_broadcasts, [])
  await refused(braze.messages.schedule.update({ schedule_id: later.schedule_id, schedule: { time: time(1) } }), 400, /sent or deleted/)
  await refused(braze.messages.schedule.create({ external_user_ids: ['js-1'], schedule: { time: time(-1) }, messages: { email } }), 400, /^Bad Request$/)

  const recipient = [{ external_user_id: 'js-1', attributes: { plan: 'silver' } }]
  const order = { external_send_id: 'js/7=', trigger_properties: { order: 7 }, recipient }
  const first = await braze.transactional.v1.campaigns.send('receipt', order)
  assert.equal(first.status, 'sent')
  assert.equal(first.metadata.external_send_id, 'js/7=')
  assert.equal((await braze.transactional.v1.campaigns.send('receipt', order)).dispatch_id, first.dispatch_id)
  await refused(braze.transactional.v1.campaigns.send('none', order), 400, /^Campaign does not exist$/)
}

async function refused(call, status, message) {
  await assert.rejects(call, (e) => e.status === status && message.test(e.message))
}

async function until(holds) {
  for (const end = Date.now() + patience; !(await holds()); await pause(20)) {
    assert.ok(Date.now() < end, 'waited in vain')
  }
}

main(...process.argv.slice(2)).then(() => console.log('done'))
