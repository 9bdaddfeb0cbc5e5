// Makes all calls of the npm client braze-api that Sluice answers.
const assert = require('node:assert/strict')
const { setTimeout: pause } = require('node:timers/promises')
const { Braze } = require('braze-api')

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

  assert.deepEqual(await braze.users.delete({ external_ids: ['js-1'] }), { ...success, deleted: 1 })
  await until(async () => (await braze.users.export.ids({ external_ids: ['js-1'] })).invalid_user_ids?.[0] === 'js-1')
  await refused(new Braze(url, 'stranger').users.delete({ external_ids: ['js-1'] }), 401, /^Invalid API key: stranger$/)
}

async function refused(call, status, message) {
  await assert.rejects(call, (e) => e.status === status && message.test(e.message))
}

async function until(holds) {
  for (const end = Date.now() + 60_000; !(await holds()); await pause(20)) {
    assert.ok(Date.now() < end, 'waited in vain')
  }
}

main(...process.argv.slice(2)).then(() => console.log('done'))
