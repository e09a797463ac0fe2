from django.db import migrations


def make_superusers_operators(apps, _schema_editor):
    """Whoever administered the console before there were roles goes on doing so."""
    user = apps.get_model("accounts", "User")
    user.objects.filter(is_superuser=True).update(role="operator")


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_roles_sessions_tokens")]

    operations = [migrations.RunPython(make_superusers_operators, migrations.RunPython.noop)]
